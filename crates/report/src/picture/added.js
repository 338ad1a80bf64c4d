// Around inferno's functions, which take every pattern for a regular
// expression, show nothing of a pattern without matches, and open at the top.
var draw_at_the_top = init;
init = function(evt) {
    draw_at_the_top(evt);
    // Labels of pictures as wide as their window are made anyway.
    if (!fluiddrawing) update_text_for_elements(frames.children);
    [bands.above, bands.below, details.parentNode, unzoombtn, searchbtn, matchedtxt].forEach(function(control) {
        svg.appendChild(control);
    });
    show_root();
    follow();
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
// What tells and searches stays in sight in a picture higher than its window,
// in bands that no frame shows through. In a picture that hangs down the upper
// one has a second line, for what tells.
var bands = { above: band(inverted ? 56 : 34), below: band(inverted ? 22 : 34) };
function band(height) {
    var rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rect.setAttribute("class", "band hide");
    rect.setAttribute("width", "100%");
    rect.setAttribute("height", height);
    return rect;
}
function height_of(band) {
    return band.classList.contains("hide") ? 0 : band.height.baseVal.value;
}
function follow() {
    var box = svg.getBoundingClientRect();
    var above = Math.max(0, -box.top);
    var below = Math.max(0, box.bottom - window.innerHeight);
    bands.above.classList.toggle("hide", above === 0);
    bands.below.classList.toggle("hide", below === 0);
    place(bands.above, above);
    place(bands.below, box.height - below - bands.below.height.baseVal.value);
    place(searchbtn, above);
    place(unzoombtn, above);
    var line = details.parentNode;
    var to_second_line = above > 0 ? above + 46 - line.y.baseVal[0].value : 0;
    place(line, inverted ? to_second_line : -below);
    place(matchedtxt, -below);
}
// Out from under the bands.
function into_sight(group) {
    group.scrollIntoView({ block: "nearest" });
    follow();
    var box = group.getBoundingClientRect();
    var hidden = Math.min(0, box.top - height_of(bands.above));
    if (hidden === 0) hidden = Math.max(0, box.bottom - window.innerHeight + height_of(bands.below));
    if (hidden !== 0) window.scrollBy(0, hidden);
}
function place(element, by) {
    element.setAttribute("transform", "translate(0," + by + ")");
}
window.addEventListener("scroll", follow);
window.addEventListener("resize", follow);
// The keyboard: arrows move over the frames, Enter zooms, Escape zooms out.
var cursor = null;
function number_of(group, name) {
    return parseFloat(find_child(group, "rect").attributes[name].value);
}
function place_of(group) {
    var x = number_of(group, "fg:x");
    return { group: group, x: x, end: x + number_of(group, "fg:w"), y: number_of(group, "y") };
}
function in_row(y) {
    return Array.from(frames.children).filter(function(group) {
        return !group.classList.contains("hide") && Math.abs(number_of(group, "y") - y) < 1;
    }).map(place_of);
}
function widest(places) {
    return places.reduce(function(most, other) {
        return most === null || other.end - other.x > most.end - most.x ? other : most;
    }, null);
}
var key_moves = {
    inwards: function(at, step) {
        return widest(in_row(at.y + step).filter(function(other) { return other.x >= at.x && other.end <= at.end; }));
    },
    outwards: function(at, step) {
        return widest(in_row(at.y - step).filter(function(other) { return other.x <= at.x && other.end >= at.end; }));
    },
    left: function(at) {
        return in_row(at.y).filter(function(other) { return other.end <= at.x; }).sort(function(a, b) { return b.end - a.end; })[0];
    },
    right: function(at) {
        return in_row(at.y).filter(function(other) { return other.x >= at.end; }).sort(function(a, b) { return a.x - b.x; })[0];
    }
};
function outermost() {
    var ys = Array.from(frames.children).map(function(group) { return number_of(group, "y"); });
    var y = ys.reduce(function(a, b) { return inverted ? Math.min(a, b) : Math.max(a, b); });
    return widest(in_row(y));
}
function move_to(target) {
    if (cursor) cursor.classList.remove("cursor");
    cursor = target;
    cursor.classList.add("cursor");
    into_sight(cursor);
    details.nodeValue = nametype + " " + g_to_text(cursor);
}
window.addEventListener("keydown", function(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "/") {
        event.preventDefault();
        search_prompt();
        return;
    }
    var keys = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: inverted ? "outwards" : "inwards", ArrowDown: inverted ? "inwards" : "outwards" };
    if (event.key === "Escape") {
        unzoom();
    } else if (event.key === "Enter" && cursor) {
        if (cursor.classList.contains("parent")) unzoom();
        zoom(cursor);
    } else if (keys[event.key]) {
        var step = (inverted ? 1 : -1) * 16;
        var to = cursor ? key_moves[keys[event.key]](place_of(cursor), step) : outermost();
        if (to) move_to(to.group);
    } else {
        return;
    }
    event.preventDefault();
});
