// Before anything is painted: light or dark, if the person has chosen (theme.js), or else as the system says.

document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
