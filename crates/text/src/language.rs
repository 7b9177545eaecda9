//! Language tags in their shortest form (BCP 47; RFC 5646 §4.5).

/// Codes of ISO 639-2 and those of ISO 639-1 for the same languages, by the former. Of two codes in
/// ISO 639-2, both are listed.
const SHORTER: &str = "aar aa abk ab afr af aka ak alb sq amh am ara ar arg an arm hy asm as ava av ave ae \
    aym ay aze az bak ba bam bm baq eu bel be ben bn bih bh bis bi bod bo bos bs bre br bul bg bur my cat ca \
    ces cs cha ch che ce chi zh chu cu chv cv cor kw cos co cre cr cym cy cze cs dan da deu de div dv dut nl \
    dzo dz ell el eng en epo eo est et eus eu ewe ee fao fo fas fa fij fj fin fi fra fr fre fr fry fy ful ff \
    geo ka ger de gla gd gle ga glg gl glv gv gre el grn gn guj gu hat ht hau ha heb he her hz hin hi hmo ho \
    hrv hr hun hu hye hy ibo ig ice is ido io iii ii iku iu ile ie ina ia ind id ipk ik isl is ita it jav jv \
    jpn ja kal kl kan kn kas ks kat ka kau kr kaz kk khm km kik ki kin rw kir ky kom kv kon kg kor ko kua kj \
    kur ku lao lo lat la lav lv lim li lin ln lit lt ltz lb lub lu lug lg mac mk mah mh mal ml mao mi mar mr \
    may ms mkd mk mlg mg mlt mt mon mn mri mi msa ms mya my nau na nav nv nbl nr nde nd ndo ng nep ne nld nl \
    nno nn nob nb nor no nya ny oci oc oji oj ori or orm om oss os pan pa per fa pli pi pol pl por pt pus ps \
    que qu roh rm ron ro rum ro run rn rus ru sag sg san sa sin si slk sk slo sk slv sl sme se smo sm sna sn \
    snd sd som so sot st spa es sqi sq srd sc srp sr ssw ss sun su swa sw swe sv tah ty tam ta tat tt tel te \
    tgk tg tgl tl tha th tib bo tir ti ton to tsn tn tso ts tuk tk tur tr twi tw uig ug ukr uk urd ur uzb uz \
    ven ve vie vi vol vo wel cy wln wa wol wo xho xh yid yi yor yo zha za zho zh zul zu";

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut words = SHORTER.split_ascii_whitespace();
    std::iter::from_fn(move || Some((words.next()?, words.next()?)))
}

/// Returns a tag with the shortest code for its language: `en` for `eng`, `pt-BR` for `por-BR`.
pub fn shortest(tag: &str) -> String {
    let (language, rest) = tag.split_at(tag.find('-').unwrap_or(tag.len()));
    let language = language.to_ascii_lowercase();
    let known = pairs().find(|(long, _)| *long == language).map(|(_, short)| short);
    format!("{}{rest}", known.unwrap_or(&language))
}

/// Returns true for the tag of a language with a code of two letters, with or without subtags.
pub(crate) fn is_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let language = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_known = pairs().any(|(long, short)| long == language || short == language);
    is_known
        && parts.all(|part| (2..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::{pairs, shortest};

    #[test]
    fn tags_have_the_shortest_code_of_their_language() {
        for (tag, want) in [
            ("eng", "en"),
            ("ger", "de"),
            ("deu", "de"),
            ("por-BR", "pt-BR"),
            ("pt-BR", "pt-BR"),
            ("zho-Hant", "zh-Hant"),
            ("fil", "fil"),
            ("ENG", "en"),
            ("und", "und"),
        ] {
            assert_eq!(shortest(tag), want);
        }
        assert!(pairs().all(|(long, short)| long.len() == 3 && short.len() == 2));
        let sorted: Vec<_> = pairs().map(|(long, _)| long).collect();
        assert!(sorted.is_sorted(), "the list is complete in this order");
        assert_eq!(sorted.len(), 204);
    }
}
