//! The part of an experiment's section that shows fits: a plot of each, and its saturated cells.

use super::{
    JudgedClaim,
    fit::{ClaimFit, OfferedCell},
    plot::{escaped, number},
    scatter::scatter,
    table::{end, start},
};
use std::fmt::Write as _;

/// Writes the fits of the claims that have one.
pub(super) fn fits(html: &mut String, verdicts: &[JudgedClaim], scale: &str) {
    let fitted = || verdicts.iter().filter_map(|verdict| Some((verdict, verdict.fit.as_ref()?)));
    if fitted().next().is_none() {
        return;
    }
    let head = ["Fit: value = a · R × S × B", "a", "Cells", "Saturated", "Most below saturation, MB/s"];
    start(html, "Rate of requests R × segment duration S × bit rate B", scale, &head);
    for (verdict, fit) in fitted() {
        let ClaimFit { factor, cells } = fit;
        let half_width = factor.half_width.filter(|half_width| *half_width > 0.0);
        let interval = half_width.map_or_else(String::new, |half_width| format!(" ± {}", number(half_width)));
        let below = cells.iter().filter(|cell| !cell.is_saturated).map(|cell| cell.value.mean);
        let _ = writeln!(
            html,
            "<tr><td class=\"text\">{}</td><td>{}{interval}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&verdict.claim.text),
            number(factor.mean),
            cells.len(),
            cells.iter().filter(|cell| cell.is_saturated).count(),
            number(below.fold(0.0, f64::max))
        );
    }
    end(html);
    html.push_str("<div class=\"plots\">\n");
    for (verdict, fit) in fitted() {
        let text = escaped(&verdict.claim.text);
        let _ = writeln!(
            html,
            "<figure><figcaption>{text} <small>{} by R × S × B in MB/s; hollow: saturated</small></figcaption>{}\
             </figure>",
            verdict.claim.value,
            scatter(fit, &verdict.claim.text)
        );
    }
    html.push_str("</div>\n");
    saturated(html, fitted(), scale);
}

/// Writes the cells in which the functions did not keep up.
fn saturated<'a>(
    html: &mut String,
    fitted: impl Iterator<Item = (&'a JudgedClaim, &'a ClaimFit)>,
    scale: &str,
) {
    let saturated = fitted.flat_map(|(verdict, fit)| {
        fit.cells.iter().filter(|cell| cell.is_saturated).map(move |cell| (verdict, cell))
    });
    let mut saturated = saturated.peekable();
    if saturated.peek().is_none() {
        return;
    }
    let head = ["Fit", "Cell", "Offered requests/s", "Served", "Value", "Processors of origins"];
    start(html, "Saturated cells", scale, &head);
    for (verdict, OfferedCell { name, requests, served, value, processors, .. }) in saturated {
        let _ = writeln!(
            html,
            "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{requests}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            escaped(&verdict.claim.text),
            escaped(name),
            number(*served),
            number(value.mean),
            number(*processors)
        );
    }
    end(html);
}
