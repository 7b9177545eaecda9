//! Styles and regions, as far as WebVTT has them.

use crate::markup;
use roxmltree::Node;
use std::collections::HashMap;

/// The colours that WebVTT names, with the values that TTML states for them.
pub(super) const COLOURS: [(&str, &str); 8] = [
    ("white", "#ffffff"),
    ("lime", "#00ff00"),
    ("cyan", "#00ffff"),
    ("red", "#ff0000"),
    ("yellow", "#ffff00"),
    ("magenta", "#ff00ff"),
    ("blue", "#0000ff"),
    ("black", "#000000"),
];

/// The look of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Look {
    bold: bool,
    italic: bool,
    underline: bool,
    /// Index into [`COLOURS`]. White is the colour of text without one.
    colour: Option<usize>,
    align: Option<&'static str>,
    /// The place of its region from the top, in percent, if its text begins or ends there.
    line: Option<(u8, &'static str)>,
}

impl Look {
    /// Returns the settings of a cue.
    pub(super) fn settings(&self) -> String {
        let line = self.line.map(|(percent, anchor)| format!("line:{percent}%{anchor}"));
        let align = self.align.map(|align| format!("align:{align}"));
        line.into_iter().chain(align).collect::<Vec<_>>().join(" ")
    }
}

/// The styles and regions of a document by their names.
pub(super) struct Styles<'a, 'i> {
    styles: HashMap<&'a str, Node<'a, 'i>>,
    regions: HashMap<&'a str, Node<'a, 'i>>,
}

impl<'a, 'i: 'a> Styles<'a, 'i> {
    pub(super) fn of(root: Node<'a, 'i>) -> Self {
        let named = |kind: &str| {
            let nodes = root.descendants().filter(|node| node.tag_name().name() == kind);
            nodes.filter_map(|node| Some((value(node, "id")?, node))).collect()
        };
        Self { styles: named("style"), regions: named("region") }
    }

    /// Returns the look of an element's text.
    pub(super) fn apply(&self, node: Node<'a, 'i>, inherited: &Look) -> Look {
        let mut look = inherited.clone();
        if let Some(region) = value(node, "region").and_then(|name| self.regions.get(name)) {
            self.put(*region, &mut look);
            // Styles of a region may be children of it.
            region.children().filter(|child| child.tag_name().name() == "style").for_each(|child| {
                put_own(child, &mut look);
            });
            look.line = self.line_of(*region);
        }
        self.put(node, &mut look);
        look
    }

    /// Applies the styles that an element refers to, and its own.
    fn put(&self, node: Node<'a, 'i>, look: &mut Look) {
        for name in value(node, "style").unwrap_or_default().split_whitespace().take(4) {
            let Some(style) = self.styles.get(name) else { continue };
            // A style may refer to another one.
            let others = value(*style, "style").unwrap_or_default().split_whitespace().take(4);
            others.filter_map(|name| self.styles.get(name)).for_each(|other| put_own(*other, look));
            put_own(*style, look);
        }
        put_own(node, look);
    }

    /// Returns the place of a region's text, unless it is at the bottom of the picture.
    fn line_of(&self, region: Node<'a, 'i>) -> Option<(u8, &'static str)> {
        let attribute = |name: &'static str| {
            let referred = value(region, "style").and_then(|style| self.styles.get(style));
            let children = region.children().filter(|child| child.tag_name().name() == "style");
            [Some(region), referred.copied()]
                .into_iter()
                .flatten()
                .chain(children)
                .find_map(|n| value(n, name))
        };
        let vertical = |text: &str| {
            let percent = text.split_whitespace().nth(1)?.strip_suffix('%')?.parse::<f32>().ok()?;
            // Fractions of a percent cannot be seen. Casts of floats saturate.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            (0.0..=100.0).contains(&percent).then_some(percent.round() as u8)
        };
        let top = vertical(attribute("origin")?)?;
        let height = attribute("extent").and_then(vertical).unwrap_or(100 - top.min(100));
        match attribute("displayAlign").unwrap_or("before") {
            "after" => Some(top.saturating_add(height)).filter(|&bottom| bottom < 75).map(|at| (at, ",end")),
            "before" => Some((top, "")).filter(|&(top, _)| top < 60),
            _ => None,
        }
    }
}

/// Applies the attributes of an element.
fn put_own(node: Node<'_, '_>, look: &mut Look) {
    for attribute in node.attributes() {
        let value = attribute.value();
        match attribute.name() {
            "fontWeight" => look.bold = value == "bold",
            "fontStyle" => look.italic = matches!(value, "italic" | "oblique"),
            "textDecoration" => look.underline = value.split_whitespace().any(|word| word == "underline"),
            "color" => look.colour = colour(value),
            "textAlign" => {
                look.align = match value {
                    "left" => Some("left"),
                    "right" => Some("right"),
                    "start" => Some("start"),
                    "end" => Some("end"),
                    _ => None,
                }
            }
            _ => {}
        }
    }
}

/// Returns the colour that a value names, if WebVTT has it and it is not that of all text.
fn colour(value: &str) -> Option<usize> {
    let value = value.to_ascii_lowercase();
    // The transparency is dropped.
    let hex = value.get(..7).filter(|_| value.starts_with('#')).unwrap_or(&value);
    COLOURS.iter().position(|&(name, code)| name == value || code == hex).filter(|&at| at > 0)
}

fn value<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|a| a.name() == name).map(|a| a.value())
}

/// The tags that are open while text is written.
#[derive(Debug, Default)]
pub(super) struct OpenTags {
    faces: Vec<(u8, char)>,
    colour: Option<usize>,
}

impl OpenTags {
    /// Closes and opens tags so that text with a look may follow. Classes enclose the other tags.
    pub(super) fn change(&mut self, look: &Look, out: &mut String) {
        if self.colour != look.colour {
            markup::change_tags(&mut self.faces, &[], out);
            if self.colour.take().is_some() {
                out.push_str("</c>");
            }
            if let Some((name, _)) = look.colour.and_then(|at| COLOURS.get(at)) {
                out.push_str(&format!("<c.{name}>"));
                self.colour = look.colour;
            }
        }
        let faces = [((1, 'b'), look.bold), ((2, 'i'), look.italic), ((4, 'u'), look.underline)];
        markup::change_tags(&mut self.faces, &faces, out);
    }
}
