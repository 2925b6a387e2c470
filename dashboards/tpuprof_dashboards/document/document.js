// Shows an HTML document in a frame without rights. Called again with new data whenever the page changes.
export default function (component) {
  const { parentElement, data } = component;
  let frame = parentElement.querySelector("iframe");
  if (!frame) {
    frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "");
    frame.setAttribute("referrerpolicy", "no-referrer");
    frame.style.cssText = "width:100%;border:1px solid var(--st-border-color);border-radius:4px;display:block";
    parentElement.appendChild(frame);
  }
  frame.style.height = `${data.height}px`;
  frame.title = data.title;
  if (frame.srcdoc !== data.html) {
    frame.srcdoc = data.html;
  }
}
