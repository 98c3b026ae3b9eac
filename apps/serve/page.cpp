// The page that `lockstep serve` shows.

#include "serve/http_server.h"

namespace lockstep::apps {

const char* served_page() {
  return R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lockstep</title>
<style>
  :root { color-scheme: light dark; }
  [hidden] { display: none !important; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.3rem; margin: 0; }
  #about { opacity: .7; margin: 0 0 1.5rem; overflow-wrap: anywhere; }
  #log > div { padding: .5rem .8rem; border-radius: .6rem; margin: .4rem 0; overflow-wrap: anywhere; white-space: pre-wrap; }
  .mine { background: #2563eb22; margin-left: 3rem !important; }
  .answer { background: #88888822; margin-right: 3rem !important; }
  .problem { background: #dc262633; }
  form { display: flex; gap: .5rem; margin-top: 1rem; }
  textarea { flex: 1; font: inherit; padding: .5rem; }
  button, input[type=file]::file-selector-button { font: inherit; padding: .4rem 1rem; }
  #drop { border: 2px dashed #888; border-radius: .6rem; padding: 1.5rem; text-align: center; }
  #drop.over { border-color: #2563eb; }
  canvas { max-width: 100%; margin-top: 1rem; }
  table { border-collapse: collapse; width: 100%; margin-top: .5rem; }
  td { padding: .2rem .5rem; }
  td.bar { width: 60%; }
  td.bar div { background: #2563eb; height: .8rem; border-radius: .2rem; }
</style>
</head>
<body>
<h1>Lockstep</h1>
<p id="about">…</p>
<div id="drop" hidden>
  <input type="file" id="file" accept="image/jpeg,image/png" aria-label="picture">
  <p>or drop a JPEG or PNG file here</p>
</div>
<canvas id="picture" hidden></canvas>
<div id="log" aria-live="polite"></div>
<form id="texts" hidden>
  <textarea id="text" rows="2" placeholder="A text; Enter sends it" aria-label="text"></textarea>
  <button>Send</button>
</form>
<script>
"use strict";
const at = id => document.getElementById(id);
const add = (parent, tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  parent.append(element);
  return element;
};
let service = "";

async function ask(body) {
  const response = await fetch("/api/" + service, {method: "POST", body});
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function sendText(text) {
  add(at("log"), "div", text, "mine");
  try {
    const answer = await ask(JSON.stringify({text}));
    add(at("log"), "div", answer.texts[0].length ? answer.texts[0][0].text : "", "answer");
  } catch (problem) {
    add(at("log"), "div", problem.message, "problem");
  }
}

async function sendPicture(file) {
  at("log").replaceChildren();
  try {
    const picture = await createImageBitmap(file);
    const answer = await ask(file);
    draw(picture, answer.found || []);
    if (answer.classes) table(answer.classes);
    else add(at("log"), "div", answer.found.length + " things found", "answer");
  } catch (problem) {
    at("picture").hidden = true;
    add(at("log"), "div", problem.message, "problem");
  }
}

function draw(picture, found) {
  const canvas = at("picture");
  canvas.hidden = false;
  canvas.width = picture.width;
  canvas.height = picture.height;
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0);
  const size = Math.max(12, picture.width / 40);
  pen.font = size + "px system-ui, sans-serif";
  pen.lineWidth = size / 6;
  for (const thing of found) {
    const [left, top, width, height] = thing.box;
    pen.strokeStyle = pen.fillStyle = "#e11d48";
    pen.strokeRect(left, top, width, height);
    pen.fillText(thing.class + " " + thing.score.toFixed(2), left + 4, Math.max(size, top - 4));
  }
}

function table(classes) {
  const rows = add(at("log"), "table");
  for (const one of classes) {
    const row = add(rows, "tr");
    add(row, "td", one.class);
    add(row, "td", one.score.toFixed(3));
    const bar = add(add(row, "td", "", "bar"), "div", "");
    bar.style.width = 100 * one.score + "%";
  }
}

at("texts").addEventListener("submit", event => {
  event.preventDefault();
  const text = at("text").value.trim();
  at("text").value = "";
  if (text) sendText(text);
});
at("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    at("texts").requestSubmit();
  }
});
at("file").addEventListener("change", () => at("file").files[0] && sendPicture(at("file").files[0]));
for (const kind of ["dragover", "dragleave", "drop"])
  at("drop").addEventListener(kind, event => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files[0]) sendPicture(event.dataTransfer.files[0]);
  });

fetch("/api/model").then(response => response.json()).then(model => {
  service = model.service;
  at("about").textContent = model.about;
  at("texts").hidden = service !== "text";
  at("drop").hidden = service === "text";
});
</script>
</body>
</html>
)page";
}

}  // namespace lockstep::apps
