// Where sampling the same run again would find the shares of a frame's
// function, behind what its title tells of the frame.
var init_without_intervals = init;
init = function(evt) {
    Array.from(document.getElementById("frames").children).forEach(function(group) {
        var title = find_child(group, "title");
        var words = title && intervals.get(name_in(title.textContent));
        if (words) title.firstChild.nodeValue = title.textContent.replace(/\)$/, "; function's 95 %: " + words + ")");
    });
    init_without_intervals(evt);
};
function name_in(title) {
    return title.replace(/ ?\([^(]*\)$/, "");
}
// Searches are for names, not for what stands behind them.
g_to_func = function(group) {
    return name_in(g_to_text(group));
};
