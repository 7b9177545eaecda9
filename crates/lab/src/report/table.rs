//! Tables in frames in which they can be scrolled.

use super::plot::escaped;
use std::fmt::Write as _;

/// Starts a table in a frame in which it can be scrolled. The caption states the scale of what was
/// measured.
pub(super) fn start(html: &mut String, caption: &str, scale: &str, head: &[&str]) {
    let caption = escaped(&match scale {
        "" => caption.to_owned(),
        scale => format!("{caption} ({scale})"),
    });
    let _ = writeln!(
        html,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n\
         <table>\n<caption>{caption}</caption>\n<thead><tr>"
    );
    for name in head {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
}

/// Ends a table.
pub(super) fn end(html: &mut String) {
    html.push_str("</tbody>\n</table>\n</div>\n");
}
