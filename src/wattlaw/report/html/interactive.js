// Draws each figure anew with what the pointer can ask of it; the drawing that was there stays for who runs no scripts.
for (const place of document.querySelectorAll("script[type='application/json'][data-figure]")) {
  const style = getComputedStyle(document.documentElement);
  const colours = JSON.parse(document.getElementById("colours").textContent);
  let text = place.textContent;
  for (const [colour, variable] of Object.entries(colours)) {
    text = text.replaceAll(colour, style.getPropertyValue(variable).trim() || colour);
  }
  const frame = document.getElementById(place.dataset.figure).querySelector(".scroll");
  const fresh = document.createElement("div");
  const options = { actions: false, renderer: "svg", tooltip: true };
  vegaEmbed(fresh, JSON.parse(text), options)
    .then(() => {
      // One picture to a screen reader, with the words of the drawing that it replaces.
      for (const part of fresh.querySelectorAll("[role], [aria-roledescription]")) {
        part.removeAttribute("role");
        part.removeAttribute("aria-roledescription");
      }
      const picture = fresh.querySelector("svg");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", frame.querySelector("desc").textContent);
      frame.replaceChildren(fresh);
    })
    .catch(console.error);
}
