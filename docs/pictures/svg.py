"""A few shapes of SVG, in the colours of docs/architecture.svg."""

from html import escape

STYLE = """
  .box { stroke-width: 1.2; }
  .grey { fill: #eef1f6; stroke: #8b97ab; }
  .yellow { fill: #fff3d6; stroke: #d0a33a; }
  .blue { fill: #e6f0fd; stroke: #4a86cf; }
  .green { fill: #e4f5ea; stroke: #3f9a62; }
  .violet { fill: #f3eafb; stroke: #9062c4; }
  .red { fill: #fde9e4; stroke: #cf6a4a; }
  .dark { fill: #dfe6f1; stroke: #4d5f7c; }
  .white { fill: #ffffff; stroke: #a9b6ca; }
  .head { font-size: 16px; font-weight: 600; }
  .name { font-weight: 600; }
  .small { font-size: 11.5px; fill: #55627a; }
  .mono { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 12px; }
  .mid { text-anchor: middle; }
  .right { text-anchor: end; }
  .line { stroke: #55627a; stroke-width: 1.2; fill: none; }
  .dash { stroke: #55627a; stroke-width: 1; stroke-dasharray: 4 3; fill: none; }
"""


class Svg:
    """Draws on a light panel, so that it can be read on a light and on a dark page."""

    def __init__(self, width, height, title, description):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title desc" font-family="system-ui, '
            "-apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\" font-size=\"13\" "
            'fill="#1f2a3a">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" '
            'fill="#55627a"/></marker></defs>',
            f"<style>{STYLE}</style>",
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="14" fill="#fbfcfe" '
            'stroke="#d5dbe5"/>',
        ]

    def rect(self, x, y, width, height, kind, round_=5):
        self.parts.append(f'<rect class="box {kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                          f'height="{height:.1f}" rx="{round_}"/>')

    def text(self, x, y, words, kind=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" xml:space="preserve">'
                          f"{escape(words)}</text>")

    def box(self, x, y, width, height, kind, words, detail=""):
        """A rectangle with a name in the middle, and perhaps a smaller line below it."""
        self.rect(x, y, width, height, kind)
        middle = y + height / 2
        self.text(x + width / 2, middle + (-2 if detail else 4.5), words, "name mid")
        if detail:
            self.text(x + width / 2, middle + 13, detail, "small mid")

    def path(self, points, tip=True, kind="line"):
        where = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{where}"' +
                          (' marker-end="url(#tip)"' if tip else "") + "/>")

    def save(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts) + "\n</svg>\n")
