#include "thinwire/report/page.h"

#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --paper: #fdfdfc; --raised: #f4f5f3; --ink: #16191d; --soft: #59616a; --hair: #dfe2e4; --grid: #e9ebec;
  --c0: #0072b2; --c1: #d55e00; --c2: #00845f; --c3: #b3568c; --c4: #b07a00; --c5: #2f8fcc; --c6: #3a3f45; --c7: #7d6b00;
  --compute: #5f7f9c; --compute-ink: #fff; --wait: #f0b429; --wait-line: #a86a00; --wait-ink: #3d2a00; --wire: #3aa0d8;
  --other: #d3d7da; --other-ink: #33383d; --idle: #eceeee;
  --forward: #7cc4ee; --forward-ink: #06263a; --backward: #0072b2; --backward-ink: #fff; --weights: #d88bb5;
  --weights-ink: #33091f; --update: #d55e00; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171a; --raised: #1d2125; --ink: #e9ecee; --soft: #9ba4ad; --hair: #32383e; --grid: #262b30;
  --c0: #4ba6e8; --c1: #f5884b; --c2: #2fc79b; --c3: #e495c2; --c4: #f0b63a; --c5: #92d2f7; --c6: #d5dade; --c7: #e8dd5c;
  --compute: #6d90af; --compute-ink: #0d1114; --wait: #e0a520; --wait-line: #6b4700; --wait-ink: #241800; --wire: #56b4e9;
  --other: #454c53; --other-ink: #e9ecee; --idle: #2a3036;
  --forward: #92d2f7; --forward-ink: #06263a; --backward: #2a84c4; --backward-ink: #fff; --weights: #e495c2;
  --weights-ink: #33091f; --update: #f5884b; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1088px; margin: 0 auto; padding: 40px 24px 64px; }
.eyebrow { margin: 0 0 14px; color: var(--soft); font-size: 13px; letter-spacing: .04em; }
.eyebrow b { color: var(--ink); font-weight: 650; }
h1 { margin: 0; max-width: 30em; font-size: clamp(1.45rem, 1.1rem + 1.6vw, 2.1rem); line-height: 1.28; font-weight: 450;
  letter-spacing: -.012em; text-wrap: pretty; }
h1 strong { font-weight: 700; }
.lede { margin: 14px 0 0; max-width: 42em; font-size: 1.1rem; color: var(--soft); }
h2 { margin: 60px 0 6px; font-size: 1.32rem; line-height: 1.3; font-weight: 680; letter-spacing: -.008em; }
h3 { margin: 0; font-size: 1rem; font-weight: 650; }
p { margin: 0 0 14px; max-width: 44em; }
.note, figcaption { color: var(--soft); font-size: .92rem; }
section > .note { margin-bottom: 20px; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86em; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 18px 32px; margin: 36px 0 0;
  padding: 20px 0 0; border-top: 1px solid var(--hair); }
.facts dt { color: var(--soft); font-size: .82rem; } .facts dd { margin: 1px 0 0; overflow-wrap: anywhere; line-height: 1.4; }
table { width: 100%; border-collapse: collapse; font-size: .95rem; }
th { padding: 0 0 8px 14px; border-bottom: 1px solid var(--ink); text-align: right; vertical-align: bottom; font-weight: 600;
  font-size: .84rem; line-height: 1.3; } th small { display: block; font-weight: 400; color: var(--soft); font-size: .92em; }
td { padding: 10px 0 10px 14px; border-bottom: 1px solid var(--hair); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; text-align: left; } td:first-child { font-weight: 600; }
td.best { font-weight: 700; } td.hash { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--soft); }
.state { font-weight: 400; color: var(--soft); font-size: .84rem; }
.key { display: inline-block; vertical-align: middle; width: 26px; height: 10px; margin-right: 9px; overflow: visible; }
ul.legend { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 0 0 18px; padding: 0; list-style: none; font-size: .92rem; }
.swatch { display: inline-block; width: 18px; height: 11px; margin-right: 8px; vertical-align: -1px; }
.swatch.thin { height: 6px; vertical-align: 2px; } .swatch svg { display: block; width: 100%; height: 100%; }
figure { margin: 0 0 34px; } figure h3 { margin-bottom: 6px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 28px; }
svg { display: block; width: 100%; height: auto; font-size: 12.5px; } svg text { fill: var(--soft); }
svg.defs { position: absolute; width: 0; height: 0; } .middle, .narrow { display: none; }
.axis .grid, .lanes .grid, .stages .grid { stroke: var(--grid); } .axis .base, .axis .tick { stroke: var(--soft); stroke-width: 1; }
.axis .name { fill: var(--ink); font-size: 12.5px; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: butt; }
.dot { fill: var(--paper); stroke-width: 2; } .leader { stroke-width: 1; opacity: .6; stroke-dasharray: none !important; }
svg .label { stroke: var(--paper); stroke-width: 4px; paint-order: stroke; stroke-linejoin: round; font-weight: 650;
  stroke-dasharray: none !important; }
.floor { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 7 5; opacity: .7; }
svg .floorname { fill: var(--ink); stroke: var(--paper); stroke-width: 4px; paint-order: stroke; }
.cursor { stroke: var(--soft); stroke-width: 1; visibility: hidden; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); stroke-dasharray: 9 3; } .s2 { stroke: var(--c2); stroke-dasharray: 3 2.5; }
.s3 { stroke: var(--c3); stroke-dasharray: 10 3 2.5 3; } .s4 { stroke: var(--c4); stroke-dasharray: 14 4; }
.s5 { stroke: var(--c5); stroke-dasharray: 6 2; } .s6 { stroke: var(--c6); stroke-dasharray: 1.5 2.5; }
.s7 { stroke: var(--c7); stroke-dasharray: 12 3 2 3 2 3; } .dot { stroke-dasharray: none !important; }
svg .label.s0 { fill: var(--c0); } svg .label.s1 { fill: var(--c1); } svg .label.s2 { fill: var(--c2); }
svg .label.s3 { fill: var(--c3); } svg .label.s4 { fill: var(--c4); } svg .label.s5 { fill: var(--c5); }
svg .label.s6 { fill: var(--c6); } svg .label.s7 { fill: var(--c7); } svg .label { stroke: var(--paper) !important; }
.compute { fill: var(--compute); } .wait { fill: url(#waiting); } .wire { fill: var(--wire); } .other { fill: var(--other); }
.lanes .compute { stroke: var(--paper); stroke-width: .8; } .lanes .lane { font-size: 12px; }
.bars .barname { fill: var(--ink); font-weight: 600; font-size: 14px; } .bars .bartotal { font-size: 13px; }
.bars .share { font-size: 12.5px; font-weight: 600; } .on-compute { fill: var(--compute-ink) !important; }
.on-wait { fill: var(--wait-ink) !important; stroke: var(--wait); stroke-width: 5px; paint-order: stroke; }
.on-other { fill: var(--other-ink) !important; }
.forward { fill: var(--forward); } .backward { fill: var(--backward); } .weights { fill: var(--weights); }
.update { fill: var(--update); } .idle { fill: var(--idle); }
.stages .lane { font-size: 12px; } .stages .batch { font-size: 11px; font-weight: 600; pointer-events: none; }
.on-forward { fill: var(--forward-ink) !important; } .on-backward { fill: var(--backward-ink) !important; }
.on-weights { fill: var(--weights-ink) !important; } .which { margin: 10px 0 4px; font-size: .92rem; font-weight: 600; }
.lane-head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 14px; margin-bottom: 6px; }
.lane-head p { margin: 0; max-width: none; } figcaption { margin-top: 4px; }
dl.words { display: grid; grid-template-columns: minmax(120px, 170px) 1fr; gap: 14px 24px; margin: 14px 0 0; }
.words dt { font-weight: 650; } .words dd { margin: 0; max-width: 44em; }
pre { margin: 0 0 16px; padding: 14px 16px; background: var(--raised); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; line-height: 1.5; }
details { margin: 0 0 10px; } summary { cursor: pointer; } details pre { margin-top: 10px; }
footer { margin-top: 60px; padding-top: 16px; border-top: 1px solid var(--hair); color: var(--soft); font-size: .86rem; }
#tip { position: absolute; z-index: 2; display: none; max-width: 280px; padding: 8px 11px; border-radius: 6px;
  pointer-events: none; background: var(--ink); color: var(--paper); font-size: 13px; line-height: 1.45; }
#tip b { display: block; font-weight: 600; } #tip span { display: flex; justify-content: space-between; gap: 16px; }
@media (max-width: 960px) {
  .wide { display: none; } .middle { display: block; } .narrow .label { font-size: 11.5px; }
  thead { display: none; } table, tbody, td { display: block; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(98px, 1fr)); gap: 9px 16px; padding: 16px 0;
    border-bottom: 1px solid var(--hair); }
  td, td:first-child { padding: 0; border: 0; text-align: left; }
  td:first-child { grid-column: 1 / -1; font-size: 1.05rem; }
  td:not(:first-child)::before { content: attr(data-name); display: block; color: var(--soft);
    font: 400 12px/1.4 system-ui, sans-serif; }
  td.hash { line-height: 24px; } }
@media (max-width: 720px) {
  main { padding: 26px 16px 48px; } h2 { margin-top: 46px; }
  .middle { display: none; } .narrow { display: block; max-width: 540px; } .pair { grid-template-columns: 1fr; }
  dl.facts { grid-template-columns: 1fr 1fr; gap: 14px 20px; }
  dl.words { grid-template-columns: 1fr; gap: 2px; } .words dd { margin-bottom: 12px; } }
)css";

constexpr const char* kScript = R"js(
(() => {
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg > title")) {  // or the browser shows it over every picture
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  const number = (v, digits = 3) => Number(v.toPrecision(digits)).toLocaleString("en", {maximumSignificantDigits: digits});
  const units = {
    number: v => number(v), steps: v => "step " + Math.round(v), seconds: v => number(v) + " s",
    bytes: v => v >= 1e9 ? number(v / 1e9) + " GB" : v >= 1e6 ? number(v / 1e6) + " MB" : number(v / 1e3) + " kB"};
  const axis = text => {
    const [low, high, from, to, kind, unit] = text.split(" ").map((w, i) => i < 4 ? Number(w) : w);
    const value = px => {
      const share = (px - from) / (to - from);
      return kind === "log" ? low * Math.pow(high / low, share) : low + share * (high - low);
    };
    return {from, to, value, text: px => units[unit](value(px))};
  };
  const show = (event, lines) => {
    tip.replaceChildren(...lines.map(([name, value], i) => {
      const row = document.createElement(i === 0 ? "b" : "span");
      if (value === undefined) row.textContent = name;
      else row.append(...[name, value].map(text => Object.assign(document.createElement("i"), {textContent: text,
        style: "font-style: normal"})));
      return row;
    }));
    tip.style.display = "block";
    const room = document.documentElement.clientWidth, left = event.clientX + 14;
    tip.style.left = Math.max(4, left + tip.offsetWidth > room ? event.clientX - tip.offsetWidth - 14 : left) + "px";
    tip.style.top = event.clientY + window.scrollY + 14 + "px";
  };
  const hide = () => {
    tip.style.display = "none";
    for (const line of document.querySelectorAll(".cursor")) line.style.visibility = "hidden";
  };
  const nearest = (points, x) => points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
  for (const svg of document.querySelectorAll("svg.chart")) {
    const x = axis(svg.dataset.x), y = axis(svg.dataset.y), cursor = svg.querySelector(".cursor");
    const lines = [...svg.querySelectorAll(".line")].map(line => ({name: line.dataset.name,
      points: line.getAttribute("points").split(" ").map(p => p.split(",").map(Number))}));
    const dots = [...svg.querySelectorAll(".dot")];
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
      if (px < x.from - 4 || px > x.to + 4) return hide();
      const dot = dots.find(d => Math.hypot(d.cx.baseVal.value - px, d.cy.baseVal.value - py) < 9);
      const at = dot ? dot.cx.baseVal.value : px, rows = [[x.text(at)]];
      if (dot) rows.push([dot.dataset.name + (svg.dataset.dots ? ", " + svg.dataset.dots : ""), number(+dot.dataset.v, 4)]);
      else for (const line of lines) {
        const point = nearest(line.points, at);
        if (Math.abs(point[0] - at) < 14) rows.push([line.name, number(y.value(point[1]), 4)]);
      }
      if (rows.length < 2) return hide();
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      cursor.style.visibility = "visible";
      show(event, rows);
    });
    svg.addEventListener("pointerleave", hide);
  }
  for (const piece of document.querySelectorAll("[data-tip]")) {
    piece.addEventListener("pointermove", event => show(event, [[piece.dataset.tip]]));
    piece.addEventListener("pointerleave", hide);
  }
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const measure = () => {
    root.dataset.overflow = Math.max(0, root.scrollWidth - root.clientWidth);
    root.dataset.scheme = dark.matches ? "dark" : "light";
  };
  window.addEventListener("resize", measure);
  dark.addEventListener("change", measure);
  measure();
  root.dataset.ready = "yes";
})();
)js";

constexpr const char* kPatterns =
    R"svg(<svg class="defs" aria-hidden="true"><title>patterns</title><defs>
<pattern id="waiting" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="5" height="5" fill="var(--wait)"/><line x1="0" x2="0" y1="0" y2="5" stroke="var(--wait-line)" stroke-width="1.6"/>
</pattern></defs></svg>)svg";

}  // namespace

std::string page_html(const std::string& title, const std::string& body) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<link rel=\"icon\" href=\"data:,\">\n<title>" + escaped(title) + "</title>\n<style>";
  out += kStyle;
  out += "</style>\n</head>\n<body>\n";
  out += kPatterns;
  out += "\n<main>\n" + body + "</main>\n<div id=\"tip\" role=\"status\"></div>\n<script>";
  out += kScript;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace thinwire::report
