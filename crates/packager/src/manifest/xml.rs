//! A writer of XML text: elements, attributes, indentation. It does not know any schema.

use std::fmt::{Display, Write as _};

/// XML text under construction. Elements are closed in the reverse order of opening.
#[derive(Debug)]
pub(super) struct Xml {
    text: String,
    open: Vec<&'static str>,
}

impl Xml {
    /// Begins a document with the XML declaration.
    pub(super) fn new() -> Self {
        Self { text: String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), open: Vec::new() }
    }

    /// Begins the start tag of an element: add attributes, then end it.
    pub(super) fn tag(&mut self, name: &'static str) -> StartTag<'_> {
        for _ in &self.open {
            self.text.push_str("  ");
        }
        self.text.push('<');
        self.text.push_str(name);
        StartTag { xml: self, name }
    }

    /// Closes the innermost open element.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            for _ in &self.open {
                self.text.push_str("  ");
            }
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "</{name}>");
        }
    }

    /// Appends the text of an attribute or element, escaped.
    fn escape(&mut self, value: &str) {
        let text = &mut self.text;
        for c in value.chars() {
            match c {
                '&' => text.push_str("&amp;"),
                '<' => text.push_str("&lt;"),
                '>' => text.push_str("&gt;"),
                '"' => text.push_str("&quot;"),
                // Attribute values are normalised: these need a reference (XML 1.0 §3.3.3).
                '\t' | '\n' | '\r' => {
                    let _ = write!(text, "&#{};", u32::from(c));
                }
                // Not a character of XML 1.0 (§2.2), not even as a reference.
                c if c.is_control() && u32::from(c) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    text.push('\u{fffd}');
                }
                c => text.push(c),
            }
        }
    }

    /// Returns the text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Closes all open elements and returns the text.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }
}

#[derive(Debug)]
#[must_use = "end it with `children`, `text` or `empty`"]
pub(super) struct StartTag<'a> {
    xml: &'a mut Xml,
    name: &'static str,
}

impl StartTag<'_> {
    /// Adds an attribute and escapes its value.
    pub(super) fn attr(self, name: &str, value: impl Display) -> Self {
        let _ = write!(self.xml.text, " {name}=\"");
        self.xml.escape(&value.to_string());
        self.xml.text.push('"');
        self
    }

    pub(super) fn attr_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.attr(name, value),
            None => self,
        }
    }

    /// Ends the start tag. Children follow until [`Xml::close`].
    pub(super) fn children(self) {
        self.xml.text.push_str(">\n");
        self.xml.open.push(self.name);
    }

    /// Ends the start tag and writes an element that holds only this text, escaped.
    pub(super) fn text(self, text: &str) {
        self.xml.text.push('>');
        self.xml.escape(text);
        let _ = writeln!(self.xml.text, "</{}>", self.name);
    }

    /// Ends the tag of an element without children.
    pub(super) fn empty(self) {
        self.xml.text.push_str("/>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::Xml;

    #[test]
    fn elements_are_nested_and_values_escaped() {
        let mut xml = Xml::new();
        xml.tag("a").attr("x", "<&>\"'\n\u{1}").children();
        xml.tag("b").attr_if("n", Some(1)).attr_if("m", None::<u32>).empty();
        xml.tag("c").attr("x", 1).text("a < b");
        assert_eq!(
            xml.finish(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a x=\"&lt;&amp;&gt;&quot;'&#10;\u{fffd}\">\n  <b n=\"1\"/>\n  <c x=\"1\">a &lt; b</c>\n</a>\n"
        );
    }
}
