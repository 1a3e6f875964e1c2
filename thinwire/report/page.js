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
