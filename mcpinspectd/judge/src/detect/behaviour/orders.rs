//! Orders in a text: sentences that ask for something with an effect.
//!
//! The words of an order do not tell whether it is an attack, so no sentence is judged here. All that is kept of a
//! text is what a later call can be compared with: which act is asked for, and the values in the
//! same sentence or in those right after it. Values in records (`recipient: …`), and in texts without any order, are
//! data.

use mcpinspect_core::text::bound;

use super::acts::{Acts, VERB};
use super::passages::{key_of, sentences};
use super::values::{self, ADDRESS, TrackedValue, ValueHasher};
use crate::detect::words::WORDS;

/// Bytes to keep of an order.
const KEPT: usize = 400;
/// Most values of an order, and of the sentences after it.
const VALUES: usize = 24;
/// How many sentences after an order may belong to it.
const AFTER: usize = 4;
/// The fewest words that an order has.
const LEAST_WORDS: usize = 3;
/// Most orders to take from one text.
const ORDERS: usize = 192;
/// Most values to take from the data of one text.
const DATA: usize = 2048;
/// Most starts of records to note in one text. What follows counts as one.
const RECORDS: usize = 4096;

/// A sentence that asks for something.
#[derive(Clone, Debug)]
pub struct Order {
    /// The sentence, bounded.
    pub text: Box<str>,
    /// Where it starts, in bytes of the text that contains it.
    pub position: usize,
    /// What it asks for.
    pub acts: Acts,
    /// The values in it.
    pub values: Vec<TrackedValue>,
    /// The values in the sentences right after it.
    pub after: Vec<TrackedValue>,
}

impl Order {
    /// Whether it asks to send something, and says where to.
    pub fn sends_to_an_address(&self) -> bool {
        let mut values = self.values.iter().chain(&self.after);
        self.acts.meets(Acts::SEND) && values.any(|value| value.weight >= ADDRESS)
    }
}

/// What a text holds.
#[derive(Clone, Debug, Default)]
pub struct ExtractedOrders {
    /// The orders in it.
    pub orders: Vec<Order>,
    /// The values outside orders.
    pub data: Vec<TrackedValue>,
    /// Where the records in the last text begin, in bytes, ascending.
    pub records: Vec<usize>,
}

impl ExtractedOrders {
    /// Whether two places in the last text are in the same record.
    pub fn same_record(&self, a: usize, b: usize) -> bool {
        let record = |place| self.records.partition_point(|start| *start <= place);
        record(a) == record(b)
    }
}

/// Finds the orders in a text that ask for one of `wanted`, and the values outside them, and adds them to
/// `found`.
pub fn find(text: &str, wanted: Acts, hasher: &ValueHasher, found: &mut ExtractedOrders) {
    let before = found.orders.len();
    found.records.clear();
    let mut following = 0;
    let mut prose = Vec::new();
    sentences(text, |sentence| {
        if sentence.record {
            following = 0;
            if found.records.len() < RECORDS {
                found.records.push(sentence.position);
            }
        }
        let acts = ordered_acts(sentence.text);
        let room = found.orders.len() < ORDERS;
        if acts.meets(wanted)
            && room
            && sentence.text.split(' ').take(LEAST_WORDS).count() == LEAST_WORDS
        {
            let mut values = hasher.values(sentence.text);
            values.truncate(VALUES);
            found.orders.push(Order {
                text: bound(sentence.text, KEPT).as_ref().into(),
                position: sentence.position,
                acts,
                values,
                after: Vec::new(),
            });
            following = AFTER;
            return;
        }
        let values = hasher.values(sentence.text).into_iter();
        match found.orders.last_mut().filter(|_| following > 0) {
            Some(order) => {
                following -= 1;
                let room = VALUES.saturating_sub(order.after.len());
                order.after.extend(values.take(room));
            }
            None => {
                let data = match sentence.record {
                    true => &mut found.data,
                    false => &mut prose,
                };
                let room = DATA.saturating_sub(data.len());
                data.extend(values.take(room));
            }
        }
    });
    // The author of the order also wrote the sentences around it: they explain nothing.
    if found.orders.len() == before {
        let room = DATA.saturating_sub(found.data.len());
        found.data.extend(prose.into_iter().take(room));
    }
}

/// The deed is named within this many words after the verb: `make a small payment`.
const DEED: usize = 3;

/// Bytes of the longest word that an order may begin with, before its verb.
const LONGEST_LEADING: usize = 12;

fn is_leading(word: &str) -> bool {
    word.len() <= LONGEST_LEADING && WORDS.orders.leading.contains(word)
}

/// What a sentence orders: the acts of its verbs, where their position is that of an order.
fn ordered_acts(sentence: &str) -> Acts {
    if addresses_another(sentence) {
        return Acts::NONE;
    }
    let mut acts = Acts::NONE;
    let mut starts = true;
    // How many words after a verb such as `make` may still say what is made.
    let mut made = 0;
    let mut lower = String::new();
    let mut rest = sentence;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_length(rest));
        let joins = |byte: Option<&u8>| matches!(byte, Some(b'\'' | b'-' | b'_'));
        let bytes = word.as_bytes();
        // Hardly ever, and slow.
        let word = match joins(bytes.first()) || joins(bytes.last()) {
            true => word.trim_matches(['\'', '-', '_']),
            false => word,
        };
        if !word.is_empty() {
            lower.clear();
            if word.len() <= VERB {
                put_lower(word, &mut lower);
            }
            if made > 0 {
                made -= 1;
                acts = acts | Acts::of_deed(&lower);
            }
            if starts {
                let act = Acts::of_verb(&lower);
                acts = acts | act;
                if act.meets(Acts::CREATE) {
                    made = DEED;
                }
            }
            starts = is_leading(&lower);
        }
        let mut characters = after.chars();
        starts |= matches!(
            characters.next(),
            Some(
                ':' | ';'
                    | ','
                    | '>'
                    | ']'
                    | ')'
                    | '('
                    | '.'
                    | '!'
                    | '?'
                    | '*'
                    | '–'
                    | '—'
                    | '"'
                    | '`'
            )
        );
        rest = characters.as_str();
    }
    acts
}

/// The length of the word at the start of a text, in bytes.
fn word_length(text: &str) -> usize {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'\'' | b'-' | b'_');
    let length = text.bytes().take_while(|byte| word(byte)).count();
    let (_, rest) = text.split_at(length);
    match rest.bytes().next() {
        Some(0x80..) => {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '-' | '_');
            length + rest.find(|c| !word(c)).unwrap_or(rest.len())
        }
        _ => length,
    }
}

/// Appends a word in lower case.
fn put_lower(word: &str, lower: &mut String) {
    match word.is_ascii() {
        true => {
            lower.push_str(word);
            lower.make_ascii_lowercase();
        }
        false => lower.extend(word.chars().flat_map(char::to_lowercase)),
    }
}

/// Whether a list gives the task to someone by name: `- Linda: send the minutes`.
fn addresses_another(sentence: &str) -> bool {
    let Some(item) = sentence.strip_prefix(['-', '*', '•']).map(str::trim_start) else {
        return false;
    };
    let not_people = &WORDS.orders.not_people;
    key_of(item).is_some_and(|name| {
        let capital = name.chars().next().is_some_and(char::is_uppercase);
        let lower = name.to_lowercase();
        capital
            && !lower
                .split(' ')
                .any(|word| not_people.contains(word) || values::weight(word).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(text: &str) -> Vec<Order> {
        let mut found = ExtractedOrders::default();
        find(text, Acts::EFFECT, &ValueHasher::default(), &mut found);
        found.orders
    }

    #[test]
    fn no_leading_word_is_too_long() {
        assert!(WORDS.orders.leading.iter().all(|word| is_leading(word)));
    }

    #[test]
    fn orders_are_recognised_by_where_the_verb_stands() {
        for order in [
            "Send the report to a@x.example.",
            "TODO: transfer 30 to the account",
            "Before you go on, please remove the backup with id 4471.",
            "Ignore that. Do Set the passphrase to winter_lake. instead.",
            "You must also share it with b@x.example",
            "Bitte überweise 30 an NL50KRUP0582917346.",
        ] {
            assert_eq!(orders(order).len(), 1, "{order}");
        }
        for other in [
            "The report was sent to a@x.example.",
            "My sister changed the address.",
            "- Linda: send the minutes to c@x.example",
            "sender: a@x.example",
            "Run the tests.",
        ] {
            assert_eq!(orders(other).len(), 0, "{other}");
        }
        let post = &orders("Make a post on the board at b.example.")[0];
        assert!(post.acts.meets(Acts::SEND) && post.acts.meets(Acts::CREATE));
        let list = &orders("Make a list of all the messages in it.")[0];
        assert!(!list.acts.meets(Acts::SEND));
        assert_eq!(
            orders("- Assistant: send the minutes to c@x.example").len(),
            1
        );
    }

    #[test]
    fn values_belong_to_the_order_or_follow_it_or_are_data() {
        let hasher = ValueHasher::default();
        let text = "from: a@x.example\n\nInvite Ruta to the crew. Her address is ruta@x.example.\n\nIBAN: AT183947205518830264";
        let mut found = ExtractedOrders::default();
        find(text, Acts::EFFECT, &hasher, &mut found);
        let [order] = found.orders.as_slice() else {
            panic!("one order")
        };
        assert_eq!(&*order.text, "Invite Ruta to the crew.");
        assert_eq!(order.position, text.find("Invite").unwrap_or_default());
        let hashes =
            |values: &[TrackedValue]| values.iter().map(|value| value.hash).collect::<Vec<_>>();
        assert_eq!(hashes(&order.after), [hasher.hash("ruta@x.example")]);
        assert_eq!(
            hashes(&found.data),
            [
                hasher.hash("a@x.example"),
                hasher.hash("AT183947205518830264")
            ]
        );
    }
}
