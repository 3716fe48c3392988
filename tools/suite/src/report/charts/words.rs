//! The width of text, about: a picture cannot ask the reader's fonts.

/// Units of a character at size 11, of wide fonts (DejaVu Sans); others leave a little more room.
const CHARACTER: f64 = 6.7;

pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Cut with an ellipsis.
pub fn cut(text: &str, room: f64) -> String {
    let most = (room / CHARACTER + 0.01).max(1.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept.trim_end().to_owned() + "…"
}

/// Lines that fit, broken between words; a word that is too long is cut.
pub fn wrap(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if width(last) + width(word) + CHARACTER <= room => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(cut(word, room)),
        }
    }
    lines
}

#[test]
fn words_stay_within_their_room() {
    assert_eq!(wrap("one two three", 60.0), ["one two", "three"]);
    assert_eq!(cut("abcdefghij", 40.0), "abcd…");
    assert_eq!(wrap("abcdefghij k", 40.0), ["abcd…", "k"]);
    assert!(wrap("", 40.0).is_empty());
}
