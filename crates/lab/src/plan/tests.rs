//! Tests of plans, with a library in a folder.

use super::*;
use std::{fs, time::Duration};
use tempfile::TempDir;

const EXPERIMENT: &str = "
description = 'How fast is a cold cache?'
repeats = { min = 2 }
content = { title = 'small', layout = 'fmp4' }
links = { wan = { rate = '8Mbit/s' } }
load = { kind = 'list', connections = '$connections' }
[matrix]
setup = ['plain', 'cached']
format = ['dash', 'hls']
connections = [1, 10]
";

const TITLE: &str = "description = ''\nseconds = 60\nsize = [640, 272]\nframes = 24\ngop = 48
video = ['872kbit/s']\naudio = '128kbit/s'";

/// Makes a library with two set-ups, and returns the path of the experiment in it.
fn library(experiment: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab");
    for sub in ["lab/experiments", "lab/setups", "lab/titles", "examples/setups"] {
        fs::create_dir_all(folder.path().join(sub)).unwrap();
    }
    let chain = |cache: &str| {
        format!(
            "description = 'x'\nchain = [ {{ id = 'storage', host = 'store' }}, {{ id = 'wan', function = 'link' }},
             {{ id = 'origin', host = 'edge', config = 'ipp' }}, {cache} {{ id = 'load', host = 'client' }} ]"
        )
    };
    fs::write(lab.join("setups/plain.toml"), chain("")).unwrap();
    let cache = "{ id = 'cache', host = 'edge', mode = 'segments' },";
    fs::write(lab.join("setups/cached.toml"), chain(cache)).unwrap();
    fs::write(lab.join("titles/small.toml"), TITLE).unwrap();
    fs::write(folder.path().join("examples/setups/ipp.toml"), "[cache]\nmemory = \"0\"\n").unwrap();
    let path = lab.join("experiments/cold.toml");
    fs::write(&path, experiment).unwrap();
    (folder, path)
}

fn conditions() -> Conditions {
    Conditions { program: "1".to_owned(), mode: "loopback".to_owned() }
}

fn planned(experiment: &str) -> Result<Planned, String> {
    let (_folder, path) = library(experiment);
    plan(&path, &Library::beside(&path), &conditions(), &Extent::default()).map_err(|error| error.to_string())
}

fn refused(experiment: &str, why: &str) {
    let error = planned(experiment).unwrap_err();
    assert!(error.contains(why) && !error.contains('\n'), "{error}");
}

#[test]
fn a_plan_has_one_cell_for_each_combination() {
    let planned = planned(EXPERIMENT).unwrap();
    assert_eq!((planned.name.as_str(), planned.cells.len()), ("cold", 8));
    let keys: BTreeSet<_> = planned.cells.iter().map(|cell| &cell.key).collect();
    assert_eq!(keys.len(), 8);
    let cell = &planned.cells[0];
    let node = |id: &str| cell.graph.nodes().iter().find(|node| node.id == id).unwrap();
    assert_eq!(node("storage").parameters["content"], "small/fmp4");
    assert_eq!(node("wan").parameters["rate"], "8Mbit/s");
    assert_eq!(node("origin").parameters["config"], "[cache]\nmemory = \"0\"\n");
    let load = &node("load").parameters;
    assert_eq!((load["connections"].as_str(), load["format"].as_str()), ("1", cell.point["format"].as_str()));
}

#[test]
fn storage_and_load_have_as_many_copies_of_a_title() {
    let copied = EXPERIMENT
        .replace("layout = 'fmp4'", "layout = 'fmp4', copies = '$copies'")
        .replace("connections = [1, 10]", "connections = [1]\ncopies = [1, 24]");
    let planned = planned(&copied).unwrap();
    assert_eq!(planned.cells.len(), 8);
    for cell in &planned.cells {
        let copies = |id: &str| {
            let node = cell.graph.nodes().iter().find(|node| node.id == id).unwrap();
            node.parameters["copies"].clone()
        };
        assert_eq!(
            [copies("storage"), copies("load")],
            [cell.point["copies"].clone(), cell.point["copies"].clone()]
        );
    }
    refused(&copied.replace("24]", "2000]"), "storage: copies must be from 1 to 1000");
    refused(&EXPERIMENT.replace("kind = 'list'", "kind = 'list', copies = 2"), "remove `copies`");
}

#[test]
fn each_connection_has_a_copy_of_its_own_if_the_setup_says_so() {
    let (folder, path) = library(EXPERIMENT);
    let setup = folder.path().join("lab/setups/plain.toml");
    let text = fs::read_to_string(&setup).unwrap();
    fs::write(&setup, text.replace("chain = [", "copy_per_connection = true\nchain = [")).unwrap();
    let plan = |text: &str| {
        fs::write(&path, text).unwrap();
        plan(&path, &Library::beside(&path), &conditions(), &Extent::default()).unwrap()
    };
    let copies = |cell: &Cell| {
        let stated = |id: &str, name: &str| {
            let node = cell.graph.nodes().iter().find(|node| node.id == id).unwrap();
            node.parameters.get(name).cloned()
        };
        (stated("storage", "copies"), stated("load", "copies"), stated("load", "passes"))
    };
    let planned = plan(EXPERIMENT);
    for cell in &planned.cells {
        let ten = || Some("10".to_owned());
        let expected = match (cell.point["setup"].as_str(), cell.point["connections"].as_str()) {
            ("plain", "10") => (ten(), ten(), Some("1".to_owned())),
            _ => (None, None, None),
        };
        assert_eq!(copies(cell), expected, "{:?}", cell.point);
    }
    // Copies of the experiment are those of every set-up.
    let stated = plan(&EXPERIMENT.replace("layout = 'fmp4'", "layout = 'fmp4', copies = 3"));
    assert!(stated.cells.iter().all(|cell| copies(cell).0.as_deref() == Some("3")));
    // A title is on the disk once, and each of its segments is requested once.
    assert_eq!(Estimate::of(&[planned]), Estimate::of(&[self::planned(EXPERIMENT).unwrap()]));
    let players = plan(&EXPERIMENT.replace("kind = 'list'", "kind = 'sequence', duration = '9s'"));
    assert!(players.cells.iter().all(|cell| copies(cell).2.is_none()));
    assert!(players.cells.iter().any(|cell| copies(cell).1.is_some()));
}

#[test]
fn a_player_takes_the_place_of_the_load() {
    let both = EXPERIMENT
        .replace("load =", "client = '$client'\nplayer = { starts = 3, before = 'same' }\nload =")
        .replace("connections = '$connections'", "connections = 7, before = 'none'")
        .replace("['dash', 'hls']\nconnections = [1, 10]", "['dash']\nclient = ['load', 'player']");
    let planned = planned(&both).unwrap();
    assert_eq!(planned.cells.len(), 4);
    assert!(planned.has_player());
    for cell in &planned.cells {
        let client = cell.graph.client().unwrap();
        assert_eq!([&client.id, client.function.name()], [&cell.point["client"]; 2]);
        assert_eq!(cell.graph.inputs(&client.id).count(), 1);
        let names: Vec<&str> = client.parameters.keys().map(String::as_str).collect();
        match client.function {
            Function::Player => assert_eq!(names, ["before", "format", "starts", "title"]),
            _ => assert_eq!(names, ["before", "connections", "format", "kind", "title"]),
        }
    }
    // A pass takes 7.5 s over the link; the player starts 3 times, after such a pass.
    let only = BTreeMap::from([("client".to_owned(), vec!["player".to_owned()])]);
    let (_folder, path) = library(&both);
    let players = plan(&path, &Library::beside(&path), &conditions(), &Extent { only, scale: 1.0 }).unwrap();
    assert_eq!(Estimate::of(&[players]).time, Duration::from_millis(1_000 + 3 * 2_000 + 7_500) * 2 * 2);
    assert!(!super::tests::planned(EXPERIMENT).unwrap().has_player());
    refused(
        &both.replace("'load', 'player']", "'load', 'cache']"),
        "client: 'cache' is neither load nor player",
    );
    refused(&both.replace("'load', 'player']", "'load', 'film']"), "client: unknown function 'film'");
    refused(&both.replace("['dash']", "['hls']"), "player: format = 'hls': not one of dash");
    refused(&both.replace("starts = 3", "format = 'dash'"), "player: remove `format`");
    refused(&both.replace("starts = 3", "starts = '$n'"), "'$n' names no axis");
    refused(&both.replace("client = '$client'", "client = '$player'"), "'$player' names no axis");
}

#[test]
fn a_key_changes_with_all_that_a_result_depends_on() {
    let (folder, path) = library(EXPERIMENT);
    let library = Library::beside(&path);
    let key = |conditions: &Conditions| {
        plan(&path, &library, conditions, &Extent::default()).unwrap().cells[0].key.clone()
    };
    let first = key(&conditions());
    assert_eq!(key(&conditions()), first);
    assert_ne!(key(&Conditions { program: "2".to_owned(), ..conditions() }), first);
    assert_ne!(key(&Conditions { mode: "hosts".to_owned(), ..conditions() }), first);
    let change = |file: &str, from: &str, to: &str| {
        let file = folder.path().join(file);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from));
        fs::write(&file, text.replace(from, to)).unwrap();
        let changed = key(&conditions());
        fs::write(&file, text).unwrap();
        changed
    };
    assert_ne!(change("lab/titles/small.toml", "60", "61"), first);
    assert_ne!(change("lab/experiments/cold.toml", "8Mbit/s", "9Mbit/s"), first);
    // The first cell is one of the set-up `cached`, or of `plain`: both have this origin.
    assert_ne!(change("examples/setups/ipp.toml", "\"0\"", "\"1\""), first);
    assert_eq!(change("lab/experiments/cold.toml", "min = 2", "min = 1"), first);
}

#[test]
fn formats_that_follow_themselves_are_left_out() {
    let other = EXPERIMENT
        .replace("connections = '$connections'", "connections = 1, before = '$before'")
        .replace("connections = [1, 10]", "before = ['dash', 'hls', 'hds']");
    let pairs: BTreeSet<_> = planned(&other)
        .unwrap()
        .cells
        .into_iter()
        .map(|cell| (cell.point["before"].clone(), cell.point["format"].clone()))
        .collect();
    let expected = [("dash", "hls"), ("hls", "dash"), ("hds", "dash"), ("hds", "hls")];
    assert_eq!(pairs, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let numbers: Vec<String> = (1..=25_000).map(|number| number.to_string()).collect();
    let many = EXPERIMENT.replace("[1, 10]", &format!("[{}]", numbers.join(",")));
    refused(&many, "cold.toml: matrix: 100000 cells, more than 10000");
}

#[test]
fn plans_with_mistakes_are_refused_in_one_line() {
    refused(&EXPERIMENT.replace("'cached'", "'none'"), "none.toml: No such file");
    refused(&EXPERIMENT.replace("'cached'", "'../plain'"), "'../plain' is not a name of letters");
    refused(&EXPERIMENT.replace("title = 'small'", "title = 'large'"), "large.toml: No such file");
    refused(&EXPERIMENT.replace("fmp4", "ismv"), "layout = 'ismv': not one of mp4, fmp4");
    refused(&EXPERIMENT.replace("wan =", "lan ="), "links: no set-up has a link 'lan'");
    refused(&EXPERIMENT.replace("rate", "speed"), "wan: link has no parameter 'speed'");
    refused(&EXPERIMENT.replace("'hls'", "'rtmp'"), "load: format = 'rtmp': not one of dash");
    refused(&EXPERIMENT.replace("'list'", "'all'"), "kind = 'all': not one of list");
    refused(&EXPERIMENT.replace("kind = 'list', ", ""), "load needs the parameter 'kind'");
    refused(&EXPERIMENT.replace("[1, 10]", "[0]"), "connections = '0': not a whole number");
}

#[test]
fn a_block_has_each_cell_once_in_an_order_of_its_seed() {
    let first = block(7, 0, 100);
    assert_eq!(block(7, 0, 100), first);
    assert_ne!(block(7, 1, 100), first);
    assert_ne!(block(8, 0, 100), first);
    assert_ne!(first, (0..100).collect::<Vec<_>>());
    let mut sorted = first;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..100).collect::<Vec<_>>());
}

/// The bytes of 24 s of the title.
const ENCODED: u64 = 3_000_000;

#[test]
fn time_and_disk_are_known_beforehand() {
    let small = planned(EXPERIMENT).unwrap();
    // 1 Mbit/s for 60 s over 8 Mbit/s take 7.5 s, and 1 s to start and stop: 8 cells, twice.
    let estimate = Estimate::of(std::slice::from_ref(&small));
    assert_eq!(estimate.time, Duration::from_millis(8_500) * 16);
    // A title and three times as much in caches, and 24 s that are encoded.
    assert_eq!(estimate.disk, 4 * 7_500_000 + ENCODED);
    // Titles are stored once for all experiments.
    assert_eq!(Estimate::of(&[small.clone(), small]).disk, estimate.disk);
    // Copies are stored once, but requested and cached each.
    let copied = planned(&EXPERIMENT.replace("layout = 'fmp4'", "layout = 'fmp4', copies = 4")).unwrap();
    let copied = Estimate::of(&[copied]);
    assert_eq!((copied.time, copied.disk), (Duration::from_secs(31) * 16, 13 * 7_500_000 + ENCODED));
    // The caches of origins are in memory, and there is no other.
    let memory = planned(&EXPERIMENT.replace("'plain', 'cached'", "'plain'")).unwrap();
    assert_eq!(Estimate::of(&[memory]).disk, 7_500_000 + ENCODED);
    let longer = EXPERIMENT.replace("kind = 'list'", "kind = 'list', before = 'same', duration = '30s'");
    let estimate = Estimate::of(&[planned(&longer).unwrap()]);
    assert_eq!(estimate.time, Duration::from_millis(38_500) * 16);
    // Copies of a title have one index, which is all that other caches keep.
    let (folder, path) = library(&EXPERIMENT.replace("layout = 'fmp4'", "layout = 'fmp4', copies = 4"));
    let setup = folder.path().join("lab/setups/cached.toml");
    fs::write(&setup, fs::read_to_string(&setup).unwrap().replace("'segments'", "'meta'")).unwrap();
    let indexes = plan(&path, &Library::beside(&path), &conditions(), &Extent::default()).unwrap();
    assert_eq!(Estimate::of(&[indexes]).disk, 7_500_000 + ENCODED);
    // A title of another length is another title, with the same encoding.
    let (_folder, path) = library(EXPERIMENT);
    let scaled = Extent { scale: 0.4, only: BTreeMap::new() };
    let short = plan(&path, &Library::beside(&path), &conditions(), &scaled).unwrap();
    let long = planned(EXPERIMENT).unwrap();
    let both = Estimate::of(&[short.clone(), long.clone()]).titles;
    assert_eq!(both, Estimate::of(&[short]).titles + Estimate::of(&[long]).titles - ENCODED);
}

#[test]
fn scaled_experiments_have_fewer_cells_unless_values_are_chosen() {
    let (_folder, path) = library(&format!("{EXPERIMENT}[scaled]\nconnections = [1]\n"));
    let connections = |scale, only: &[(&str, &[&str])]| {
        let texts = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let only = only.iter().map(|(axis, values)| ((*axis).to_owned(), texts(values))).collect();
        let chosen = plan(&path, &Library::beside(&path), &conditions(), &Extent { scale, only }).unwrap();
        chosen.cells.iter().map(|cell| cell.point["connections"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(connections(1.0, &[]).len(), 8);
    assert_eq!(connections(0.5, &[]), ["1", "1", "1", "1"]);
    assert_eq!(connections(0.5, &[("format", &["hls"])]), ["1", "1"]);
    assert_eq!(connections(0.5, &[("connections", &["10"])]), ["10", "10", "10", "10"]);
}

#[test]
fn steps_are_shortened_and_titles_keep_a_length() {
    let text = EXPERIMENT
        .replace("layout = 'fmp4'", "layout = 'fmp4', shortest = '40s'")
        .replace("kind = 'list'", "kind = 'list', steps = '1/40s 10/1m'");
    let (_folder, path) = library(&text);
    let seconds = |scale: f64| {
        let extent = Extent { scale, only: BTreeMap::new() };
        let chosen = plan(&path, &Library::beside(&path), &conditions(), &extent).unwrap();
        let steps = chosen.cells[0].graph.nodes().last().unwrap().parameters["steps"].clone();
        (chosen.titles.values().next().unwrap().seconds, steps, Estimate::of(&[chosen]).time.as_secs())
    };
    let (title, steps, time) = seconds(1.0);
    assert_eq!((title, steps.as_str()), (60, "1/40s 10/1m"));
    // 8 cells of 100 s, twice, and the time between them.
    assert_eq!(time, 2 * 8 * (100 + 1));
    let (title, steps, _) = seconds(0.25);
    assert_eq!((title, steps.as_str()), (40, "1/10s 10/15s"), "the title would be too short");
    let refuse = |wrong: &str, why: &str| refused(&EXPERIMENT.replace("kind = 'list'", wrong), why);
    refuse("kind = 'list', steps = '10'", "'10' is not a step such as 10/5s");
    refuse("kind = 'list', steps = ''", "steps = '': must not be empty");
    refuse("kind = 'list', steps = '0/5s'", "not a whole number from 1");
    refused(&EXPERIMENT.replace("layout = 'fmp4'", "layout = 'fmp4', shortest = '9 apples'"), "line 4");
}

#[test]
fn the_cost_model_must_cover_the_cells_of_a_claim() {
    let claim = "[[claims]]\ntext = 'x'\nvalue = 'storage requests / model'\nat_least = 1\n";
    let text = EXPERIMENT.replace("[1, 10]", "[1]").replace("'plain', 'cached'", "'plain'") + claim;
    refused(&text, "claim 'x': the cost model has no row for fragmented files without index MP4s");
    let text = text.replace("'fmp4'", "'mp4'").replace("'$connections'", "'$connections', before = 'same'");
    assert!(planned(&text).is_ok(), "{:?}", planned(&text).map(|plan| plan.name));
    refused(
        &text.replace("[1]", "[1, 10]"),
        "claim 'x': the cost model has no row for loads with several titles or",
    );
    let several = text.replace("'hls'", "'hds'");
    assert!(planned(&several).is_ok(), "one file");
    let bytes = text.replace("storage requests", "storage bytes");
    assert!(planned(&bytes).is_ok());
    let fragmented = bytes.replace("'mp4'", "'fmp4-index'");
    refused(&fragmented, "claim 'x': the cost model does not state the bytes of these segments");
    let bytes = bytes.replace("['dash', 'hls']", "['dash']");
    let single = bytes.replace("kind = 'list'", "kind = 'single', requests = 1");
    refused(&single, "claim 'x': the cost model does not state the bytes of these segments");
}

#[test]
fn a_part_of_the_cells_and_of_the_durations_can_be_chosen() {
    let text = EXPERIMENT
        .replace("kind = 'list'", "kind = 'list', duration = '10m', ramp = '4s', requests = 1000")
        + "[[claims]]\ntext = 'x'\nvalue = 'MB/s'\nat_least = 1\n";
    let (_folder, path) = library(&text);
    let only = BTreeMap::from([("connections".to_owned(), vec!["10".to_owned()])]);
    let extent = Extent { scale: 0.5, only };
    let chosen = plan(&path, &Library::beside(&path), &conditions(), &extent).unwrap();
    assert_eq!((chosen.cells.len(), chosen.claims.len(), chosen.scale), (4, 1, 0.5));
    assert!(chosen.cells.iter().all(|cell| cell.point["connections"] == "10"));
    // 60 s halved, and rounded down to a multiple of 4 s.
    assert_eq!(chosen.titles.values().next().unwrap().seconds, 28);
    let load = &chosen.cells[0].graph.nodes().last().unwrap().parameters;
    // What is short already stays.
    assert_eq!([&load["duration"], &load["ramp"], &load["requests"]], ["5m", "4s", "500"]);
    let whole = planned(&text).unwrap();
    assert!(whole.cells.iter().all(|cell| cell.key != chosen.cells[0].key));
    let none = Extent { only: BTreeMap::from([("connections".to_owned(), Vec::new())]), ..extent };
    let error = plan(&path, &Library::beside(&path), &conditions(), &none).unwrap_err().to_string();
    assert!(error.ends_with("no cell has the chosen values of axes"), "{error}");
}

/// The parameter of a function in the only cell of an experiment.
fn parameter(planned: &Planned, id: &str, name: &str) -> Option<String> {
    let [cell] = &planned.cells[..] else { panic!("{} cells", planned.cells.len()) };
    let node = cell.graph.nodes().iter().find(|node| node.id == id).unwrap();
    node.parameters.get(name).cloned()
}

/// Returns an experiment with one cell.
fn single(load: &str, origin: &str) -> Planned {
    let text = EXPERIMENT
        .replace("kind = 'list', connections = '$connections'", load)
        .replace("\nload", &format!("\norigin = {{ {origin} }}\nload"))
        .replace("['plain', 'cached']", "['plain']")
        .replace("['dash', 'hls']", "['dash']")
        .replace("connections = [1, 10]", "");
    planned(&text).unwrap()
}

#[test]
fn a_fixed_rate_offers_requests_of_a_size_that_follows_from_duration_and_bit_rate() {
    let load = "kind = 'list', connections = 1, rate = 20, duration = '10s'";
    let fixed = single(load, "segment-duration = '8s'");
    // 20 requests of 8 s at 1 Mbit/s.
    assert_eq!(fixed.cells[0].offered, Some(Offered { requests: 20.0, bytes: 20_000_000.0 }));
    // 7 whole segments of 60 s, of video and of audio.
    assert_eq!(parameter(&fixed, "load", "segments").as_deref(), Some("14"));
    assert_eq!(parameter(&fixed, "load", "segment-duration").as_deref(), Some("8s"));
    let choice = Choice { duration: Some("8s".to_owned()), is_lowest: false, joined: None };
    assert_eq!(fixed.choices, BTreeSet::from([choice]));
    let default = single(load, "cores = 1");
    assert_eq!(default.cells[0].offered, Some(Offered { requests: 20.0, bytes: 10_000_000.0 }));
    assert_eq!(parameter(&default, "load", "segments").as_deref(), Some("30"));
    assert_eq!((parameter(&default, "load", "segment-duration"), default.choices.len()), (None, 0));
    // These loads read the manifest of the origin.
    let players = single("kind = 'sequence', connections = 1", "segment-duration = '8s'");
    assert_eq!(parameter(&players, "load", "segment-duration"), None);
    assert_eq!((players.cells[0].offered, players.choices.len()), (None, 0));
    let lowest = single("kind = 'list', connections = 1, rendition = 'low'", "cores = 1");
    assert_eq!(lowest.choices, BTreeSet::from([Choice { duration: None, is_lowest: true, joined: None }]));
    let joined = EXPERIMENT
        .replace(
            "kind = 'list', connections = '$connections'",
            "kind = 'list', connections = 1, joined = '6s 10s'",
        )
        .replace("['dash', 'hls']", "['hls']")
        .replace("connections = [1, 10]", "");
    let to = |seconds| Choice { joined: Some(Duration::from_secs(seconds)), ..Choice::default() };
    assert_eq!(planned(&joined).unwrap().choices, BTreeSet::from([to(6), to(10)]));
    // 60 s at 1 Mbit/s three times over 8 Mbit/s, and a second to start.
    assert_eq!(Estimate::of(&[planned(&joined).unwrap()]).time, Duration::from_millis(23_500) * 2 * 2);
    refused(&joined.replace("['hls']", "['dash']"), "joined is for the segments of HLS");
    let before = single("kind = 'sequence', connections = 1, before = 'hls'", "segment-duration = '8s'");
    assert_eq!(parameter(&before, "load", "segment-duration").as_deref(), Some("8s"));
}

#[test]
fn a_cache_can_have_the_size_of_a_part_of_all_titles() {
    let load = "kind = 'sequence', connections = 1";
    let size = |origin: &str| parameter(&single(load, origin), "origin", "cache-memory");
    // 5 % of 60 s at 1 Mbit/s.
    assert_eq!(size("cache-memory = '5%'").as_deref(), Some("375000"));
    assert_eq!(size("cache-memory = '1GiB'").as_deref(), Some("1GiB"));
    assert_eq!(size("cores = 1"), None);
    let copied = EXPERIMENT
        .replace("layout = 'fmp4'", "layout = 'fmp4', copies = 40")
        .replace("\nload", "\norigin = { cache-memory = '5%' }\nload");
    let cell = &planned(&copied).unwrap().cells[0];
    let origin = cell.graph.nodes().iter().find(|node| node.id == "origin").unwrap();
    assert_eq!(origin.parameters["cache-memory"], "15000000");
    refused(&copied.replace("5%", "5 %%"), "cache-memory = '5 %%': not a size");
}
