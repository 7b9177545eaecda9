//! The report of a run as a page in one file, without scripts.

use super::{
    Cell, JudgedClaim, Natural, Run, Verdict, cells, dates,
    fits::fits,
    plot::{Bar, Mean, Series, bars, colour, escaped, lines, number},
    table::{end, start},
};
use crate::{
    experiment::{Published, Quantity, SETUP},
    machine::Machine,
    outline::Outline,
};
use latemux_load::report::Estimate;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// The style of all pages.
const THEME: &str = include_str!("../../../../web/src/theme.css");

/// The style of the report of a load, whose components this page has too.
const LOAD: &str = include_str!("../../../../web/src/load/load.css");

/// The style of this page.
const OWN: &str = include_str!("report.css");

/// The most plots of a quantity.
const MAX_PLOTS: usize = 16;

/// A cell of a plot: its set-up, its number on the axis that has numbers, its mean, and the
/// published figure.
type PlottedCell<'a> = (&'a str, Option<f64>, Mean, Option<f64>);

/// Returns the page.
pub fn page(run: &Run) -> String {
    let style: String = [THEME, LOAD, OWN]
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| !line.starts_with("@import"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let cells = cells(&run.records);
    let mut body = overview(run);
    let names: BTreeSet<&str> = cells.iter().map(|cell| cell.first.experiment.as_str()).collect();
    for name in names {
        let own: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.first.experiment == name).collect();
        experiment(&mut body, run, name, &own);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>latemux lab</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n\
         <header><p class=\"mark\">latemux lab</p></header>\n<main>\n{body}\
         <footer class=\"quiet\"><p>± is half of the 95 % confidence interval (Student's t). Ratios are taken \
         within blocks, which measure each cell once on one machine.</p></footer>\n</main>\n</body>\n</html>\n"
    )
}

/// Returns the section with machines, counts and verdicts of all experiments.
fn overview(run: &Run) -> String {
    let verdicts: Vec<JudgedClaim> = run.outlines.keys().flat_map(|name| run.verdicts(name)).collect();
    let count = |verdict| verdicts.iter().filter(|claim| claim.verdict == verdict).count();
    let measured = || run.records.iter().filter_map(|(_, record)| record.measured.as_ref());
    let disturbed = measured().filter(|measured| measured.is_disturbed()).count();
    let mut html = "<section>\n<h2>Run</h2>\n".to_owned();
    for (number, machine) in run.machines.iter().enumerate() {
        let Machine { processor, cores, memory, kernel, latemux, net, .. } = machine;
        let own = run.records.iter().filter(|(from, _)| *from == number).map(|(_, record)| record);
        let dates = dates(own).map_or_else(String::new, |dates| format!(", measured {dates}"));
        let gigabytes = *memory as f64 / 1e9;
        let processor = escaped(processor);
        let kernel = escaped(kernel);
        let _ = writeln!(
            html,
            "<p class=\"quiet\">{processor}, {cores} cores, {gigabytes:.0} GB, Linux {kernel}, latemux {}, network: {}{dates}</p>",
            escaped(latemux),
            escaped(net)
        );
    }
    if disturbed > 0 {
        let _ = writeln!(
            html,
            "<ul class=\"notes\"><li>{disturbed} measurements were disturbed: other programs used more than \
             a tenth of the processors. Their counts are right, their times are not reliable.</li></ul>"
        );
    }
    html.push_str("<dl class=\"figures\" aria-label=\"Key figures\">\n");
    let mut figure = |name: &str, count: usize, class: &str| {
        let _ = writeln!(html, "<div{class}><dt>{name}</dt><dd>{count}</dd></div>");
    };
    figure("Measurements", measured().count(), "");
    figure("Claims that hold", count(Verdict::Holds), "");
    figure("Open", count(Verdict::Open), "");
    let contradicted = count(Verdict::Contradicts);
    figure("Contradicted", contradicted, if contradicted > 0 { " class=\"bad\"" } else { "" });
    html + "</dl>\n</section>\n"
}

fn experiment(html: &mut String, run: &Run, name: &str, cells: &[&Cell<'_>]) {
    let _ = writeln!(html, "<section>\n<h2>{}</h2>", escaped(name));
    let verdicts = run.verdicts(name);
    let outline = run.outlines.get(name);
    let scale = outline.map_or_else(String::new, |outline| match outline.scale {
        scale if scale < 1.0 => format!("scale {scale}"),
        _ => "published durations".to_owned(),
    });
    if let Some(outline) = outline {
        let stated = match outline.scale {
            scale if scale < 1.0 => format!("durations, requests and titles scaled by {scale}"),
            _ => "published durations".to_owned(),
        };
        let description = escaped(&outline.description);
        let most = outline.further.map_or_else(String::new, |further| format!(" to {}", further.max));
        let _ = writeln!(
            html,
            "<p class=\"quiet\">{description} {}{most} times each, {stated}.</p>",
            outline.repeats
        );
        provenance(html, run, name, outline);
        claims(html, &verdicts, outline, &scale);
        fits(html, &verdicts, &scale);
        html.push_str("<div class=\"beside\">\n");
        outline.published.iter().for_each(|published| figures(html, published));
        html.push_str("</div>\n");
    }
    let players =
        cells.iter().flat_map(|cell| &cell.measured).filter_map(|measured| measured.player.as_ref());
    let players: BTreeSet<&String> = players.collect();
    for player in players {
        let _ = writeln!(html, "<p class=\"quiet\">Player: {}</p>", escaped(player));
    }
    let mut quantities: Vec<Quantity> = verdicts.iter().map(|verdict| verdict.claim.value).collect();
    quantities.sort();
    quantities.dedup();
    if quantities.is_empty() {
        quantities.push(Quantity::ByteRate);
    }
    html.push_str("<div class=\"plots\">\n");
    let published = outline.map_or(&[][..], |outline| &outline.published[..]);
    for quantity in quantities {
        plots(html, quantity, cells, published, &run.streams);
    }
    html.push_str("</div>\n");
    table(html, cells, &scale);
    functions(html, cells, &scale);
    html.push_str("</section>\n");
}

/// Writes when an experiment was measured, and the commands that repeat it.
fn provenance(html: &mut String, run: &Run, name: &str, outline: &Outline) {
    let own = run.records.iter().map(|(_, record)| record).filter(|record| record.experiment == name);
    if let Some(dates) = dates(own) {
        let _ = writeln!(html, "<p class=\"quiet\">Measured {dates} (UTC).</p>");
    }
    for command in &outline.commands {
        let _ = writeln!(html, "<p class=\"quiet\">Repeat: <code>{}</code></p>", escaped(command));
    }
}

fn claims(html: &mut String, verdicts: &[JudgedClaim], outline: &Outline, scale: &str) {
    if verdicts.is_empty() {
        return;
    }
    let head = ["Claim", "Value", "Measured", "95 % interval", "Bound", "Published", "Blocks", "Verdict"];
    start(html, "Claims", scale, &head);
    for judged in verdicts {
        let JudgedClaim { claim, verdict, interval, blocks, .. } = judged;
        let wide = outline
            .further
            .filter(|further| judged.half_width().is_some_and(|half_width| half_width > further.half_width));
        let wide = wide.map_or_else(String::new, |further| {
            format!(", wider than ± {} %", number(100.0 * further.half_width))
        });
        let bound = |sign: &str, bound: Option<f64>| bound.map(|bound| format!("{sign} {bound}"));
        let bounds = [bound("≥", claim.at_least), bound("≤", claim.at_most)];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        let value = claim.measure();
        let [mean, low, high] =
            interval.map_or([const { String::new() }; 3], |interval| interval.map(number));
        let _ = writeln!(
            html,
            "<tr><td class=\"text\">{}</td><td>{value}</td><td>{mean}</td><td>{low} – {high}</td><td>{}</td>\
             <td class=\"text\">{}</td><td>{blocks}{wide}</td><td class=\"{verdict}\">{verdict}</td></tr>",
            escaped(&claim.text),
            bounds.join(", "),
            escaped(claim.published.as_deref().unwrap_or_default()),
            verdict = verdict.name()
        );
    }
    end(html);
}

/// Writes a published table.
fn figures(html: &mut String, published: &Published) {
    let mut head = vec![""];
    head.extend(published.columns.iter().map(String::as_str));
    start(html, &format!("Published: {} ({})", published.title, published.source), "", &head);
    for (row, figures) in &published.rows {
        let figures: String = figures.iter().map(|figure| format!("<td>{}</td>", escaped(figure))).collect();
        let _ = writeln!(html, "<tr><td>{}</td>{figures}</tr>", escaped(row));
    }
    end(html);
}

/// Writes a plot of a quantity for each combination of the axes but the set-up, and but the one
/// that has numbers.
fn plots(
    html: &mut String,
    quantity: Quantity,
    cells: &[&Cell<'_>],
    published: &[Published],
    streams: &BTreeMap<String, f64>,
) {
    let numbers =
        cells.first().and_then(|first| first.first.point.keys().find(|axis| is_numeric(axis, cells)));
    let mut panels: BTreeMap<Vec<(&str, &str)>, Vec<PlottedCell<'_>>> = BTreeMap::new();
    for cell in cells {
        let Some(estimate) = Estimate::of(&cell.values(quantity)) else { continue };
        let point = &cell.first.point;
        let rest = point.iter().filter(|(axis, _)| *axis != SETUP && Some(*axis) != numbers);
        let panel = panels.entry(rest.map(|(axis, value)| (axis.as_str(), value.as_str())).collect());
        let position = numbers.and_then(|axis| point[axis].parse().ok());
        let setup = point.get(SETUP).map_or("", String::as_str);
        let modelled = streams.get(&cell.first.key).filter(|_| quantity == Quantity::ByteRate);
        let figure = published.iter().find_map(|table| table.figure(quantity, point));
        let figure = figure.or_else(|| modelled.map(|rate| rate / 1e6));
        panel.or_default().push((setup, position, (estimate.mean, estimate.half_width), figure));
    }
    for (panel, values) in panels.iter().take(MAX_PLOTS) {
        let panel: Vec<String> = panel.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        let label = format!("{quantity}: {}", panel.join(", "));
        let has_figures = values.iter().any(|(.., figure)| figure.is_some());
        let source =
            if streams.contains_key(&cells[0].first.key) { "the published model" } else { "published" };
        let note = match (has_figures, numbers) {
            (false, _) => String::new(),
            (true, Some(_)) => format!(" <small>hollow: {source}</small>"),
            (true, None) => format!(" <small>strokes: {source}</small>"),
        };
        let axis = numbers.map_or_else(String::new, |axis| format!(" <small>by {}</small>", escaped(axis)));
        let _ = writeln!(html, "<figure><figcaption>{}{axis}{note}</figcaption>", escaped(&label));
        if numbers.is_some() {
            let series = series(values);
            html.push_str(&lines(&series, &label));
            legend(html, &series);
        } else {
            let bars_of = values.iter().map(|(name, _, mean, published)| Bar {
                name,
                mean: *mean,
                published: *published,
            });
            let rows: Vec<Bar<'_>> = bars_of.collect();
            html.push_str(&bars(&rows, &label));
        }
        html.push_str("</figure>\n");
    }
    if panels.len() > MAX_PLOTS {
        let _ = writeln!(html, "<p class=\"quiet\">The first {MAX_PLOTS} of {} plots.</p>", panels.len());
    }
}

/// Returns true if an axis has several values, all of which are numbers.
fn is_numeric(axis: &str, cells: &[&Cell<'_>]) -> bool {
    let values: BTreeSet<&str> =
        cells.iter().filter_map(|cell| Some(cell.first.point.get(axis)?.as_str())).collect();
    axis != SETUP
        && values.len() > 1
        && values.iter().all(|value| matches!(Natural::of(value), Natural::Number(_)))
}

fn series<'a>(values: &[PlottedCell<'a>]) -> Vec<Series<'a>> {
    let mut series: BTreeMap<&str, Series<'_>> = BTreeMap::new();
    for (name, position, mean, published) in values {
        let Some(position) = position else { continue };
        let new = || Series { name, points: Vec::new(), published: Vec::new() };
        let own = series.entry(name).or_insert_with(new);
        own.points.push((*position, *mean));
        own.published.extend(published.map(|figure| (*position, figure)));
    }
    let mut series: Vec<Series<'_>> = series.into_values().collect();
    for own in &mut series {
        own.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    series
}

fn legend(html: &mut String, series: &[Series<'_>]) {
    html.push_str("<ul class=\"legend\">");
    for (index, line) in series.iter().enumerate() {
        let _ = write!(
            html,
            "<li><svg class=\"{}\" viewBox=\"0 0 20 8\" aria-hidden=\"true\">\
             <path d=\"M0 4H20\" stroke=\"currentColor\" stroke-width=\"3\"/></svg>{}</li>",
            colour(index),
            escaped(line.name)
        );
    }
    html.push_str("</ul>");
}

/// Writes the table of all cells. A quantity that no cell has gets no column.
fn table(html: &mut String, cells: &[&Cell<'_>], scale: &str) {
    let Some(first) = cells.first() else { return };
    let axes: Vec<&String> = first.first.point.keys().collect();
    let has_values = |quantity: &Quantity| {
        cells.iter().any(|cell| cell.values(*quantity).iter().any(|value| *value != 0.0))
    };
    let quantities: Vec<Quantity> = Quantity::ALL.into_iter().filter(has_values).collect();
    let mut head: Vec<&str> = axes.iter().map(|axis| axis.as_str()).collect();
    head.push("n");
    head.extend(quantities.iter().map(|quantity| quantity.name()));
    head.push("");
    start(html, "Measurements", scale, &head);
    for cell in cells {
        html.push_str("<tr>");
        for axis in &axes {
            let _ =
                write!(html, "<td>{}</td>", escaped(cell.first.point.get(*axis).map_or("", String::as_str)));
        }
        let _ = write!(html, "<td>{}</td>", cell.measured.len());
        for quantity in &quantities {
            let text = Estimate::of(&cell.values(*quantity)).map_or_else(String::new, |estimate| {
                let interval = estimate.half_width.filter(|half_width| *half_width > 0.0);
                let interval =
                    interval.map_or_else(String::new, |half_width| format!(" ± {}", number(half_width)));
                number(estimate.mean) + &interval
            });
            let _ = write!(html, "<td>{text}</td>");
        }
        let _ = writeln!(html, "<td class=\"note\">{}</td></tr>", notes(cell).join(", "));
    }
    end(html);
}

/// Returns the notes about a cell.
fn notes(cell: &Cell<'_>) -> Vec<String> {
    let of = |count: usize| format!("{count} of {}", cell.measured.len());
    let disturbed = cell.measured.iter().filter(|measured| measured.is_disturbed()).count();
    let bound = cell.measured.iter().filter(|measured| measured.is_generator_bound).count();
    let stalls: u64 = cell.measured.iter().map(|measured| measured.stalls).sum();
    let failures: u64 = cell.measured.iter().map(|measured| measured.failures).sum();
    let mut notes = Vec::new();
    if disturbed > 0 {
        notes.push(format!("disturbed: {}", of(disturbed)));
    }
    if bound > 0 {
        notes.push(format!("generator-bound: {}", of(bound)));
    }
    if stalls > 0 {
        notes.push(format!("{stalls} stalls"));
    }
    if failures > 0 {
        notes.push(format!("{failures} requests failed"));
    }
    if cell.failed > 0 {
        notes.push(format!("{} measurements failed", cell.failed));
    }
    notes
}

/// Writes the resources that the functions of each set-up used, as means over its cells.
fn functions(html: &mut String, cells: &[&Cell<'_>], scale: &str) {
    let mut sums: BTreeMap<(&str, &str), (f64, u64, u32)> = BTreeMap::new();
    for cell in cells {
        let setup = cell.first.point.get(SETUP).map_or("", String::as_str);
        for (id, used) in cell.measured.iter().flat_map(|measured| &measured.functions) {
            let (processor, memory, count) = sums.entry((setup, id)).or_default();
            *processor += used.processor;
            *memory = used.memory.max(*memory);
            *count += 1;
        }
    }
    if sums.is_empty() {
        return;
    }
    let head = ["Set-up", "Function", "Mean processor time, s", "Largest memory, MB"];
    start(html, "Resources of functions, from their start", scale, &head);
    for ((setup, id), (processor, memory, count)) in sums {
        let memory = if memory > 0 { number(memory as f64 / 1e6) } else { String::new() };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{memory}</td></tr>",
            escaped(setup),
            escaped(id),
            number(processor / f64::from(count))
        );
    }
    end(html);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        driver::{Measured, Record},
        experiment::{Claim, Further},
        plan::Offered,
        report::tests::{measured, record},
    };

    fn run() -> Run {
        let claim: Claim = toml::from_str(
            "text = 'a is <b>twice</b> as fast'\nvalue = 'MB/s'\nof = { setup = 'a' }\nagainst = { setup = 'b' }\nat_least = 1.5\npublished = 'about 2'",
        )
        .unwrap();
        let published: Published =
            toml::from_str("title = 'Rates'\nsource = 'F'\nvalue = 'MB/s'\ncolumns = ['MB/s']\nrows = { a = ['12.3'] }\ncells = { a = { setup = 'a' }, 'MB/s' = {} }")
                .unwrap();
        let outline = Outline {
            description: "How fast?".to_owned(),
            scale: 0.1,
            repeats: 3,
            further: None,
            claims: vec![claim],
            published: vec![published],
            commands: vec!["latemux lab run cold.toml --only 'setup=<a>' --out run/".to_owned()],
        };
        let both = |repeat| {
            let player = Some("dash.js 1 in <2>".to_owned());
            let disturbed = Measured { foreign: 0.5, stalls: 2, player, ..measured(4_000_000) };
            [(0, record(repeat, "a", Some(disturbed))), (0, record(repeat, "b", Some(measured(2_000_000))))]
        };
        // The first blocks before midnight, the last one after it.
        let dated = |(machine, record): (usize, Record)| {
            let began = Some(43_200 * u64::from(record.repeat));
            (machine, Record { began, ..record })
        };
        Run {
            machines: vec![Machine::this("1.2.3", "hosts")],
            outlines: BTreeMap::from([("cold".to_owned(), outline)]),
            records: (0..3).flat_map(both).map(dated).collect(),
            streams: BTreeMap::new(),
        }
    }

    #[test]
    fn the_model_of_streams_is_drawn_over_measurements() {
        let streams = BTreeMap::from([("key-a".to_owned(), 7e6), ("key-b".to_owned(), 5e6)]);
        let page = page(&Run { streams, ..run() });
        for expected in [
            "strokes: the published model",
            "<title>published: 12.3</title>",
            "<title>published: 5.00</title>",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }

    #[test]
    fn results_stand_beside_published_figures_with_verdicts() {
        let page = page(&run());
        for expected in [
            "How fast? 3 times each, durations, requests and titles scaled by 0.1.",
            "a is &lt;b&gt;twice&lt;/b&gt; as fast",
            "<td>2.00</td><td>2.00 – 2.00</td><td>≥ 1.5</td><td class=\"text\">about 2</td><td>3</td><td class=\"holds\">holds</td>",
            "<p class=\"quiet\">Measured from 1970-01-01 to 1970-01-02 (UTC).</p>",
            "network: hosts, measured from 1970-01-01 to 1970-01-02</p>",
            "Repeat: <code>latemux lab run cold.toml --only 'setup=&lt;a&gt;' --out run/</code>",
            "Published: Rates (F)",
            "<td>a</td><td>12.3</td>",
            "<title>published: 12.3</title>",
            "strokes: published",
            "<caption>Claims (scale 0.1)</caption>",
            "<caption>Measurements (scale 0.1)</caption>",
            "disturbed: 3 of 3, 6 stalls",
            "<p class=\"quiet\">Player: dash.js 1 in &lt;2&gt;</p>",
            "3 measurements were disturbed",
            "<svg ",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
        assert!(!page.contains("<script") && !page.contains("@import") && !page.contains("http"), "{page}");
    }

    #[test]
    fn a_claim_whose_interval_stayed_wide_is_marked() {
        let mut run = run();
        let outline = run.outlines.get_mut("cold").unwrap();
        outline.further = Some(Further { max: 10, half_width: 0.05 });
        assert!(page(&run).contains("How fast? 3 to 10 times each") && page(&run).contains("<td>3</td>"));
        for (number, (_, record)) in run.records.iter_mut().enumerate() {
            record.measured.as_mut().unwrap().bytes *= 1 + number as u64;
        }
        assert!(page(&run).contains("<td>3, wider than ± 5.00 %</td>"), "{}", page(&run));
    }

    #[test]
    fn a_fit_has_a_plot_and_its_saturated_cells() {
        let mut run = run();
        let claim =
            toml::from_str("text = 'proportional'\nvalue = 'MB/s'\nfit = 'R × S × B'\nat_least = 0.98");
        let outline = run.outlines.get_mut("cold").unwrap();
        (outline.claims, outline.published) = (vec![claim.unwrap()], Vec::new());
        let cells = [(1.0, 1), (2.0, 2), (4.0, 4), (9.0, 5)];
        run.records = (0..3)
            .flat_map(|repeat| {
                cells.map(|(offered, sent)| {
                    let mut record = record(repeat, "a", Some(measured(2_000_000 * sent)));
                    record.point.insert("rate".to_owned(), offered.to_string());
                    // The last one serves 2 of 3 requests per second.
                    let requests = if offered > 8.0 { 3.0 } else { 2.0 };
                    record.offered = Some(Offered { requests, bytes: offered * 1e6 });
                    (0, record)
                })
            })
            .collect();
        let page = page(&run);
        for expected in [
            "<td>R² of MB/s</td><td>1.000</td>",
            "<td class=\"text\">proportional</td><td>1.00</td><td>4</td><td>1</td><td>4.00</td>",
            "<td class=\"text\">rate 9, setup a</td><td>3</td><td>2.00</td><td>5.00</td>",
            "hollow: saturated",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
        assert_eq!(page.matches("<circle").count(), 4 + 4, "in the fit, and as lines by rate: {page}");
        let csv = run.fits().unwrap();
        assert_eq!(csv.lines().count(), 5, "{csv}");
    }

    #[test]
    fn numbers_of_an_axis_are_a_line_and_other_values_plots_of_their_own() {
        let mut run = run();
        for (number, (_, record)) in run.records.iter_mut().enumerate() {
            let connections = if number < 3 { "1" } else { "10" };
            record.point.insert("connections".to_owned(), connections.to_owned());
            record.point.insert("format".to_owned(), "hls".to_owned());
        }
        let page = page(&run);
        assert_eq!(page.matches("<figure>").count(), 1, "{page}");
        assert!(
            page.contains("MB/s: format hls <small>by connections</small>") && page.contains("<polyline"),
            "{page}"
        );
    }
}
