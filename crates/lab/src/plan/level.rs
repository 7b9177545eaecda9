//! Levels of load, each of which states two parameters.

use crate::{Error, function::Parameters};

/// The parameter with a level, such as `1000/10`: requests, and connections that share them.
const LEVEL: &str = "level";

/// Replaces the level in the parameters of a load by the requests and connections that it states.
///
/// # Errors
/// If it has another form, or if the load states requests or connections itself.
pub(super) fn split(parameters: &mut Parameters) -> Result<(), Error> {
    let Some(level) = parameters.remove(LEVEL) else { return Ok(()) };
    let Some((requests, connections)) = level.split_once('/') else {
        return Err(Error::invalid(format!(
            "{LEVEL} = '{level}': not requests/connections, such as 1000/10"
        )));
    };
    for (name, value) in [("requests", requests), ("connections", connections)] {
        if parameters.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Error::invalid(format!("{LEVEL} states the {name}, so the load must not")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::Extent, *};
    use crate::function::Function;
    use std::collections::BTreeMap;

    fn load(level: &str, more: &[(&str, &str)]) -> Parameters {
        let base = [("kind", "list"), ("format", "dash"), ("title", "t"), (LEVEL, level)];
        let all = base.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_level_states_requests_and_connections() {
        let mut parameters = load("30000/150", &[]);
        split(&mut parameters).unwrap();
        let stated = ["requests", "connections"].map(|name| parameters[name].as_str());
        assert_eq!(stated, ["30000", "150"]);
        assert_eq!(Function::Load.check(&parameters), Ok(()));
        let mut none = load("1/1", &[]);
        none.remove(LEVEL);
        let before = none.clone();
        split(&mut none).unwrap();
        assert_eq!(none, before);
    }

    #[test]
    fn the_requests_of_a_level_are_scaled() {
        let scaled = |level: &str| {
            let mut parameters = load(level, &[]);
            split(&mut parameters).unwrap();
            Extent { scale: 0.04, only: BTreeMap::new() }.load(&mut parameters).unwrap();
            format!("{}/{}", parameters["requests"], parameters["connections"])
        };
        assert_eq!(scaled("30000/150"), "1200/150");
        assert_eq!(scaled("1000/10"), "50/10");
        assert_eq!(scaled("20/10"), "20/10");
    }

    #[test]
    fn levels_of_another_form_are_refused() {
        let refused = |level: &str, more: &[(&str, &str)], why: &str| {
            let mut parameters = load(level, more);
            let found = split(&mut parameters).and_then(|()| Function::Load.check(&parameters));
            let error = found.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused("1000", &[], "level = '1000': not requests/connections, such as 1000/10");
        refused("0/10", &[], "requests = '0': not a whole number from 1");
        refused("1000/", &[], "connections = '': not a whole number from 1");
        refused("1000/10/2", &[], "connections = '10/2': not a whole number from 1");
        refused("1000/10", &[("requests", "7")], "level states the requests, so the load must not");
        refused("1000/10", &[("connections", "7")], "level states the connections, so the load must not");
    }
}
