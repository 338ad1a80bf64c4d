// A frame's label: its name, or the longest of its shorter forms that has
// room. What does not fit even then is cut, as inferno does.
function label_of(e, w) {
    var text = find_child(e, "title").textContent.replace(/\([^(]*\)$/, "");
    var forms = short_names.get(text.replace(/ $/, ""));
    var wide = known_font_width || fontsize * fontwidth;
    if (!forms || text.length * wide < w) return text;
    for (var i = 0; i < forms.length; i++)
        if (forms[i].length * wide < w) return forms[i];
    return forms[forms.length - 1];
}
