"""The page that shows a model: plain JavaScript, nothing is loaded from elsewhere."""

SKELETON = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Model</title>
<style>
  body { font: 14px/1.5 sans-serif; margin: 2em; }
  details { margin-left: 1.2em; }
  summary { cursor: pointer; }
  pre, code { font: 12px/1.4 monospace; }
  table { border-collapse: collapse; }
  td, th { padding: 0 1em 0 0; text-align: left; }
  td.number { text-align: right; }
</style>
</head>
<body>
<h1 id="title">Model</h1>
<main id="model"></main>
<script>
const BURNED_IN_MODEL_INFO = null;

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

// A part that is filled when it is opened.
function section(title, fill, open = false) {
  const made = element("details", null, element("summary", title));
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) made.append(...fill());
  });
  made.open = open;
  return made;
}

function tensor([storage, offset, size, stride, gradient]) {
  const [type, key, device] = storage;
  const wanted = gradient ? ", requires_grad" : "";
  return `${type} [${values(size).join(", ")}], storage ${key} on ${device}${wanted}`;
}

function values(data) {
  return data.__tuple_values__ || data;
}

function show(name, data) {
  const title = text => `${name}: ${text}`;
  if (data === null || typeof data !== "object") return element("div", title(JSON.stringify(data)));
  if (data.__tensor_v2__) return element("div", title(tensor(data.__tensor_v2__)));
  if (data.__qtensor__) return element("div", title("quantized " + tensor(data.__qtensor__)));
  if (data.__module_type__)
    return section(title(data.__module_type__), () => [show("state", data.state)]);
  if (data.__is_dict__) {
    const text = key => typeof key === "string" ? key : JSON.stringify(key);
    return section(title(`dict of ${data.keys.length}`),
      () => data.keys.map((key, i) => show(text(key), data.values[i])));
  }
  const items = values(data);
  return section(title(`${data.__tuple_values__ ? "tuple" : "list"} of ${items.length}`),
    () => items.map((item, i) => show(i, item)));
}

function files(entries) {
  const number = n => Object.assign(element("td", n), {className: "number"});
  return element("table", null, ...entries.map(file => element("tr", null,
    number(file.file_size), number(file.compressed_size), element("td", file.filename))));
}

function texts(title, byName, asText) {
  const names = Object.keys(byName);
  return names.length === 0 ? "" : section(title, () => names.map(
    name => section(name, () => [element("pre", asText(byName[name]))])));
}

function render({model}) {
  document.title = document.getElementById("title").textContent = model.title;
  document.getElementById("model").append(
    element("p", `${model.file_size} bytes, version ${model.version}`),
    section("Files (size, compressed size, name)", () => [files(model.zip_files)]),
    show("data", model.model_data),
    show("constants", model.constants),
    texts("Code", model.code_files, parts => parts.map(part => part[0]).join("")),
    texts("JSON", model.extra_files_jsons, data => JSON.stringify(data, null, 2)),
    texts("Pickles", model.extra_pickles, text => text));
}

if (BURNED_IN_MODEL_INFO !== null) render(BURNED_IN_MODEL_INFO);
else fetch("./model_info.json").then(answer => answer.json()).then(render);
</script>
</body>
</html>
"""
