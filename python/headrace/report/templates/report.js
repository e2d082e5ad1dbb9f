// Draws the page's figures from its data, and redraws them when the reader picks other curves, metrics or trials.
// Everything it needs stands in the page: it asks the network for nothing.
"use strict";
(async () => {
  const page = JSON.parse(document.getElementById("headrace-data").textContent);
  const { colours, signs } = page;
  const plots = {};
  for (const item of [...page.figures, ...page.series_figures.map((entry) => entry.item)]) {
    const target = document.getElementById(item.target_id);
    if (!target) continue;
    plots[item.target_id] = await headraceTitles.embed(item, target);
  }

  // On a phone rows become blocks (report.css); roles keep them a table for those who hear the page.
  const roles = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };
  for (const table of document.querySelectorAll("table.stack")) {
    for (const element of [table, ...table.querySelectorAll("thead, tbody, tr, td, th")]) {
      const header = element.scope === "col" ? "columnheader" : "rowheader";
      element.setAttribute("role", roles[element.tagName] ?? header);
    }
  }

  // A power of 1000 for an axis, and its SI prefix, as report/figures.py has it: numbers on it stay below 10 000.
  const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const axisScale = (top) => prefixes.find(([factor]) => top >= Math.max(1e4, factor)) ?? [1, ""];
  const axisTitle = ({ title, unit }, prefix) => {
    const whole = `${prefix} ${unit}`.trim();
    return whole ? `${title} (${whole})` : title;
  };
  const divide = (data, names, factor) => {
    for (const name of names) data[name] = data[name].map((value) => value / factor);
  };

  const source = (plot, name) => plot.document.get_model_by_name(name);
  // Which curve each of the eight colours draws; null when it is free.
  const seats = new Array(colours.length).fill(null);
  const boxes = [...document.querySelectorAll("input[data-curve]")];
  const seat = (curve) => seats.indexOf(curve);

  const noun = (curve) => (curve.axis.startsWith("Clients") ? "clients" : "slots");

  // Points of invalid trials: grey, apart from the curve.
  function distrusted(curve, rows, out) {
    rows.forEach((row, index) => {
      if (row === null || !curve.reasons[index]) return;
      out.load.push(curve.load[index]);
      out.noun.push(noun(curve));
      out.value.push(row[0]);
      out.text.push(row[3]);
      out.label.push(curve.label);
      out.reasons.push(curve.reasons[index]);
      out.trials.push(curve.trials[index]);
    });
  }

  function columns(curve, rows) {
    const out = { load: [], noun: [], value: [], low: [], high: [], text: [], interval: [], mark: [], label: [], limit: [], trials: [] };
    rows.forEach((row, index) => {
      if (row === null || curve.reasons[index]) return;
      const [value, low, high, text, interval, provenance] = row;
      out.load.push(curve.load[index]);
      out.noun.push(noun(curve));
      out.value.push(value);
      out.low.push(low ?? value);
      out.high.push(high ?? value);
      out.text.push(text);
      out.interval.push(interval ? `interval ${interval}` : "no interval");
      out.mark.push(provenance);
      out.label.push(curve.label);
      out.limit.push(curve.limit[index]);
      out.trials.push(curve.trials[index]);
    });
    return out;
  }

  function legend(element, entries) {
    document.getElementById(element)?.replaceChildren(...entries.map(([seatNumber, text]) => {
      const entry = document.createElement("span");
      const sign = document.createElement("b");
      sign.textContent = signs[seatNumber];
      sign.style.color = colours[seatNumber];
      entry.append(sign, text);
      return entry;
    }));
  }

  function drawCurves(element, metric, chosen = seats) {
    const plot = plots[element];
    const shown = page.metrics[metric];
    let top = 0;
    const knees = { load: [], value: [], colour: [] };
    const greys = { load: [], noun: [], value: [], label: [], text: [], reasons: [], trials: [] };
    const drawn = chosen.map((curveIndex) => {
      const curve = curveIndex === null ? null : page.curves[curveIndex];
      const data = columns(curve, curve?.values[metric] ?? []);
      if (curve) distrusted(curve, curve.values[metric] ?? [], greys);
      top = Math.max(top, ...data.high, ...data.value);
      return [curve, data];
    });
    top = Math.max(top, ...greys.value);
    // An empty chart says nothing: it is left out.
    document.getElementById(element).hidden = top === 0;
    // A line of one node among lines of several: its slots are clients, too.
    const axes = drawn.map(([curve]) => curve?.axis ?? "");
    const axis = axes.find((each) => each.startsWith("Clients")) ?? axes.find((each) => each) ?? "";
    const [factor, prefix] = axisScale(top);
    top /= factor;
    drawn.forEach(([curve, data], index) => {
      divide(data, ["value", "low", "high"], factor);
      source(plot, `curve-${index}`).data = data;
      if (curve?.knee && curve.knee.metric === metric) {
        const at = data.load.indexOf(curve.knee.load);
        if (at >= 0) {
          knees.load.push(data.load[at]);
          knees.value.push(data.value[at]);
          knees.colour.push(colours[index]);
        }
      }
    });
    source(plot, "knees").data = knees;
    divide(greys, ["value"], factor);
    source(plot, "distrusted").data = greys;
    if (metric === "efficiency") top = Math.max(top, 100);
    plot.y_range.end = top > 0 ? top * 1.06 : 1;
    plot.left[0].axis_label = axisTitle(shown, prefix);
    plot.below[0].axis_label = axis;
    const against = axis.startsWith("Clients") ? "clients" : "slots";
    headraceTitles.set(plot, document.getElementById(element), `${shown.title} against ${against}`);
  }

  function drawAll() {
    const picked = document.getElementById("pick-metric")?.value;
    if (plots["figure-rate"] && picked) drawCurves("figure-rate", picked);
    if (plots["figure-efficiency"]) drawCurves("figure-efficiency", "efficiency");
    if (plots["figure-energy"]) drawCurves("figure-energy", page.energy_metric);
    for (const box of boxes) {
      const at = seat(Number(box.dataset.curve));
      const sign = document.querySelector(`[data-sign="${box.dataset.curve}"]`);
      box.checked = at >= 0;
      box.disabled = at < 0 && !seats.includes(null);
      sign.textContent = at >= 0 ? signs[at] : "";
      sign.style.color = at >= 0 ? colours[at] : "";
    }
    for (const element of ["legend-curves", "legend-energy"]) legend(element, seats.flatMap((curve, at) => (curve === null ? [] : [[at, page.curves[curve].name]])));
    const only = document.querySelector("input.only")?.checked ?? false;
    for (const body of document.querySelectorAll("tbody[data-of]")) {
      const curve = Number(body.dataset.of);
      body.hidden = (only && seat(curve) < 0) || !filter.shows(curve);
    }
    for (const row of document.querySelectorAll("tr[data-row]")) row.toggleAttribute("data-filtered", !filter.shows(Number(row.dataset.row)));
    tools.shorten();
  }

  // The curve of the recommendation stays as it is, whatever is picked below.
  if (plots["figure-answer"]) {
    const { curves, metric } = page.answer;
    drawCurves("figure-answer", metric, [...curves, ...new Array(colours.length - curves.length).fill(null)]);
    legend("legend-answer", curves.map((curve, at) => [at, page.curves[curve].name]));
  }

  const tools = headraceTools();
  const filter = tools.filter(page.curves, drawAll);

  // The curves of one workload at a time: rates of different workloads do not compare.
  function chooseWorkload() {
    const picker = document.getElementById("pick-workload");
    const workload = picker ? picker.value : page.curves[0]?.workload;
    seats.fill(null);
    (page.drawn[workload] ?? []).forEach((curve, index) => { seats[index] = curve; });
    const metric = document.getElementById("pick-metric");
    if (metric && page.mains[workload]) metric.value = page.mains[workload];
    for (const body of document.querySelectorAll("tbody[data-workload]")) body.hidden = body.dataset.workload !== workload;
    drawAll();
  }
  document.getElementById("pick-workload")?.addEventListener("change", chooseWorkload);
  for (const box of boxes) {
    box.addEventListener("change", () => {
      const curve = Number(box.dataset.curve);
      if (box.checked && seats.includes(null)) seats[seats.indexOf(null)] = curve;
      if (!box.checked && seat(curve) >= 0) seats[seat(curve)] = null;
      drawAll();
    });
  }
  const onlyBoxes = [...document.querySelectorAll("input.only")];
  for (const box of onlyBoxes) {
    box.addEventListener("change", () => {
      for (const other of onlyBoxes) other.checked = box.checked;
      drawAll();
    });
  }
  document.getElementById("pick-metric")?.addEventListener("change", drawAll);
  chooseWorkload();

  const byteNames = ["uncompressed_bytes_per_s", "asked_bytes_per_s", "served_bytes_per_s", "device_bytes_per_s"].filter((name) => page.metrics[name]);
  function drawBytes() {
    const plot = plots["figure-bytes"];
    const picker = document.getElementById("pick-bytes");
    if (!plot || !picker) return;
    const curve = page.curves[Number(picker.value)];
    let top = 0;
    for (const name of byteNames) {
      const data = columns(curve, curve.values[name] ?? []);
      source(plot, name).data = data;
      top = Math.max(top, ...data.high, ...data.value);
    }
    plot.y_range.end = top > 0 ? top * 1.06 : 1;
    plot.below[0].axis_label = curve.axis;
    document.getElementById("figure-bytes").hidden = top === 0;
    legend("legend-bytes", byteNames.map((name, index) => [index, page.metrics[name].title]));
  }
  document.getElementById("pick-bytes")?.addEventListener("change", drawBytes);
  drawBytes();

  function drawSeries() {
    const picker = document.getElementById("pick-trial");
    if (!picker) return;
    const trial = page.series[picker.value];
    document.getElementById("trial-link").href = `${page.trials_folder}/${encodeURIComponent(picker.value)}/`;
    // Pairs of rows, before and after each change of the number of running jobs.
    const jobs = trial.jobs ?? { time_s: [], running: [] };
    const starts = { time_s: [] }, ends = { time_s: [] };
    for (let at = 1; at < jobs.time_s.length; at += 2) {
      const marks = jobs.running[at] > jobs.running[at - 1] ? starts : ends;
      marks.time_s.push(jobs.time_s[at]);
    }
    const last = Math.max(1e-3, ...Object.values(trial).map((samples) => samples.time_s.at(-1) ?? 0));
    for (const entry of page.series_figures) {
      const plot = plots[entry.element];
      const samples = trial[entry.probe];
      const data = { time_s: samples?.time_s ?? [] };
      let top = 0;
      entry.columns.forEach((name, index) => {
        const values = (samples?.[name] ?? data.time_s.map(() => null)).map((value) => (value === null ? NaN : value / entry.divisor));
        for (const value of values) if (value > top) top = value;
        data[entry.names[index]] = values;
      });
      // An empty chart says nothing: it is left out until a trial has samples for it.
      document.getElementById(entry.element).parentElement.hidden = top === 0;
      const [factor, prefix] = entry.unit === "1/s" ? axisScale(top) : [1, ""];
      top /= factor;
      divide(data, entry.names, factor);
      plot.left[0].axis_label = axisTitle({ title: entry.axis, unit: entry.unit }, prefix);
      source(plot, "series").data = data;
      if (["power", "jobs"].includes(entry.probe)) {
        for (const [name, marks] of Object.entries({ starts, ends })) {
          source(plot, name).data = { ...marks, value: marks.time_s.map(() => 0.03 * top) };
        }
      }
      plot.x_range.end = last * 1.02;
      plot.y_range.end = top > 0 ? top * 1.08 : 1;
    }
  }
  document.getElementById("pick-trial")?.addEventListener("change", drawSeries);
  drawSeries();
  // A link to a point shows its trials at once.
  addEventListener("hashchange", () => {
    for (const details of document.querySelectorAll("tr:target details")) details.open = true;
  });
  document.documentElement.dataset.drawn = Object.keys(plots).length;
})();
