// Around inferno's functions, which take every pattern for a regular
// expression, show nothing of a pattern without matches, and open at the top.
var draw_at_the_top = init;
init = function(evt) {
    draw_at_the_top(evt);
    show_root();
};
var search_valid = search;
search = function(term) {
    try {
        new RegExp(term);
    } catch (error) {
        say_of_search("Not a regular expression: " + term);
        return;
    }
    search_valid(term);
    if (!searching) say_of_search("No match: " + term);
};
var read_params = get_params;
get_params = function() {
    // What follows the question mark may be anything.
    try {
        return read_params();
    } catch (error) {
        return {};
    }
};
function say_of_search(text) {
    matchedtxt.classList.remove("hide");
    matchedtxt.firstChild.nodeValue = text;
}
// Callers are at the bottom of the picture; a deep one is higher than the
// window, and would open on what few samples reached.
function show_root() {
    if (inverted) return;
    var bottom = document.getElementsByTagName("svg")[0].getBoundingClientRect().bottom;
    if (bottom > window.innerHeight)
        window.scrollTo(0, window.scrollY + bottom - window.innerHeight);
}
