use super::{parse::MAX_DEPTH, *};
use proptest::prelude::*;

#[test]
fn every_form_is_parsed_and_printed() {
    for (text, printed) in [
        (r#"type=="audio""#, r#"type=="audio""#),
        (
            r#"(type=="audio")||(type=="video"&&MaxHeight<=480)"#,
            r#"type=="audio"||type=="video"&&MaxHeight<=480"#,
        ),
        (" systemBitrate >= 0400000 ", "systemBitrate>=400000"),
        ("type=='textstream'", r#"type=="textstream""#),
        ("trackName=='a\"b'", "trackName=='a\"b'"),
        ("((((trackID!=1))))", "trackID!=1"),
        ("(trackID<1||trackID>2)&&Channels==2", "(trackID<1||trackID>2)&&Channels==2"),
        ("(trackID<1&&trackID>2)&&Channels==2", "(trackID<1&&trackID>2)&&Channels==2"),
        ("MaxWidth<1&&SamplingRate>2&&Channels!=2", "MaxWidth<1&&SamplingRate>2&&Channels!=2"),
        (r#"systemLanguage=="pt-BR"||FourCC!="AACL""#, r#"systemLanguage=="pt-BR"||FourCC!="AACL""#),
    ] {
        assert_eq!(Filter::parse(text).map(|f| f.to_string()), Ok(printed.to_owned()), "{text}");
    }
}

#[test]
fn errors_name_the_problem_and_its_position() {
    let deep = format!("{}type==\"a\"{}", "(".repeat(MAX_DEPTH + 1), ")".repeat(MAX_DEPTH + 1));
    let long = format!("trackName==\"{}\"", "x".repeat(MAX_BYTES));
    let many = vec!["trackID==1"; 70].join("||");
    for (text, problem) in [
        ("", "a variable or '(' expected at the end"),
        ("   ", "a variable or '(' expected at the end"),
        ("type", "no operator after 'type' at character 1"),
        ("type=\"audio\"", "'=' is not allowed here at character 5"),
        ("type==audio", "type must be compared with text in quotes, at character 1"),
        ("type==", "type must be compared with text in quotes, at character 1"),
        ("type<\"audio\"", "type can only be compared by == or !=, at character 1"),
        ("type==\"audio", "no closing \" at character 7"),
        ("type==\"a\u{7}\"", "a control character in the text at character 7"),
        ("MaxHeight==\"480\"", "MaxHeight must be compared with a number, at character 1"),
        ("MaxHeight==480p", "MaxHeight must be compared with a number, at character 1"),
        ("MaxHeight==-1", "'-' is not allowed here at character 12"),
        ("MaxHeight==99999999999999999999", "a number of more than 64 bits at character 12"),
        ("maxheight==1", "unknown variable 'maxheight' at character 1"),
        ("trackID==1 trackID==2", "'&&' or '||' expected at character 12"),
        ("trackID==1&trackID==2", "'&' is not allowed here at character 11"),
        ("trackID==1&&", "a variable or '(' expected at the end"),
        ("&&trackID==1", "a variable or '(' expected at character 1"),
        ("(trackID==1", "the '(' at character 1 is not closed"),
        ("trackID==1)", "'&&' or '||' expected at character 11"),
        ("()", "a variable or '(' expected at character 2"),
        ("!(trackID==1)", "'!' is not allowed here at character 1"),
        ("é==1", "'\\u{e9}' is not allowed here at character 1"),
        (&deep, "more than 16 nested parentheses at character 17"),
        (&long, "longer than 1024 bytes"),
        (&many, "more than 256 tokens"),
    ] {
        assert_eq!(Filter::parse(text).map(|f| f.to_string()), Err(problem.to_owned()), "{text}");
    }
}

fn any_expression() -> impl Strategy<Value = Expression> {
    use {NumberVariable as N, Operator as O, TextVariable as T};
    let number =
        prop::sample::select(vec![N::Bitrate, N::Id, N::Width, N::Height, N::Channels, N::SamplingRate]);
    let operator =
        prop::sample::select(vec![O::Equal, O::NotEqual, O::Less, O::LessOrEqual, O::More, O::MoreOrEqual]);
    let text = prop::sample::select(vec![T::Kind, T::Language, T::Name, T::FourCc]);
    // No quoted text holds both kinds of quotes.
    let value = prop_oneof!["[^\"\\p{Cc}]{0,6}", "[^'\\p{Cc}]{0,6}"];
    let leaf = prop_oneof![
        (number, operator, any::<u64>()).prop_map(|(n, o, v)| Expression::Number(n, o, v)),
        (text, any::<bool>(), value).prop_map(|(t, equal, v)| Expression::Text(t, equal, v)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![list().prop_map(Expression::Any), list().prop_map(Expression::All)]
    })
}

/// Generates filters, also for the tests of addresses.
pub(crate) fn any_filter() -> impl Strategy<Value = Filter> {
    any_expression().prop_map(Filter).prop_filter("short enough", |f| f.to_string().len() <= MAX_BYTES)
}

proptest! {
    #[test]
    fn a_printed_filter_parses_to_itself(filter in any_filter()) {
        prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
    }

    #[test]
    fn a_parsed_filter_prints_to_an_equal_one(text in "(\\(|\\)|&&|\\|\\|| |trackID|type|==|<=|>|\"a\"|1){0,24}") {
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }
    }

    #[test]
    fn no_input_causes_a_panic(text in "\\PC*") {
        let _ = Filter::parse(&text);
    }
}
