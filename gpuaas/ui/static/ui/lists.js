// How does a reader arrange a list?  Columns, density and filters, kept in this browser only.
const KEY = "gpuaas.list.";

const kept = (name) => {
  try {
    return JSON.parse(localStorage.getItem(KEY + name)) ?? {};
  } catch {
    return {};
  }
};

const keep = (name, changes) => {
  try {
    localStorage.setItem(KEY + name, JSON.stringify({ ...kept(name), ...changes }));
  } catch {
    // A browser that keeps nothing shows the list as it comes.
  }
};

const headings = (table) => [...table.querySelectorAll("thead th")].map((th) => th.textContent.trim());

const showColumns = (table, hidden) => {
  const gone = headings(table).map((title) => hidden.includes(title));
  for (const row of table.rows) {
    // A row that spans the table is a note about another row: it has no columns of its own.
    if (row.cells.length !== gone.length) continue;
    [...row.cells].forEach((cell, index) => { cell.hidden = gone[index]; });
  }
};

const offerColumns = (tools, table, name) => {
  const place = tools.querySelector("[data-columns]");
  place.replaceChildren();
  headings(table).forEach((title, index) => {
    if (!title) return;
    const label = document.createElement("label");
    const box = document.createElement("input");
    label.className = "check row";
    box.type = "checkbox";
    box.checked = !(kept(name).hidden ?? []).includes(title);
    // The first column names the row; without it a row says nothing.
    box.disabled = index === 0;
    box.addEventListener("change", () => {
      const hidden = new Set(kept(name).hidden ?? []);
      if (box.checked) hidden.delete(title);
      else hidden.add(title);
      keep(name, { hidden: [...hidden] });
      showColumns(table, [...hidden]);
    });
    label.append(box, title);
    place.append(label);
  });
};

const offerFilters = (tools, name) => {
  const list = tools.querySelector("[data-saved]");
  const here = () => {
    const query = new URLSearchParams(location.search);
    query.delete("cursor");
    return `?${query}`;
  };
  const draw = () => {
    const saved = kept(name).saved ?? {};
    list.replaceChildren();
    for (const [title, query] of Object.entries(saved)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const drop = document.createElement("button");
      item.className = "pair";
      link.href = query.startsWith("?") ? query : "?";
      link.textContent = title;
      if (query === here()) link.setAttribute("aria-current", "true");
      drop.type = "button";
      drop.textContent = "forget";
      drop.setAttribute("aria-label", `Forget the filters ${title}`);
      drop.addEventListener("click", () => {
        const rest = { ...(kept(name).saved ?? {}) };
        delete rest[title];
        keep(name, { saved: rest });
        draw();
      });
      item.append(link, drop);
      list.append(item);
    }
    if (!list.children.length) {
      const none = document.createElement("li");
      none.className = "row muted";
      none.textContent = "None is saved in this browser.";
      list.append(none);
    }
  };
  tools.querySelector("[data-save]").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = event.target.querySelector("input");
    const title = field.value.trim();
    if (!title) return;
    keep(name, { saved: { ...(kept(name).saved ?? {}), [title]: here() } });
    field.value = "";
    draw();
  });
  draw();
};

const offerDensity = (tools, table, name) => {
  const button = tools.querySelector("[data-density]");
  const show = (dense) => {
    table.classList.toggle("dense", dense);
    button.setAttribute("aria-pressed", String(dense));
  };
  button.addEventListener("click", () => {
    const dense = !kept(name).dense;
    keep(name, { dense });
    show(dense);
  });
  show(Boolean(kept(name).dense));
};

// Tables come again with a live update or a page of htmx: they are arranged again, the tools once.
export const arrangeLists = (root) => {
  for (const table of root.querySelectorAll("table[data-list]")) {
    const name = table.dataset.list;
    const { hidden = [], dense = false } = kept(name);
    showColumns(table, hidden);
    table.classList.toggle("dense", Boolean(dense));
    const tools = document.querySelector(`[data-tools="${CSS.escape(name)}"]`);
    if (!tools || !tools.hidden) continue;
    tools.hidden = false;
    offerColumns(tools, table, name);
    offerFilters(tools, name);
    offerDensity(tools, table, name);
  }
};
