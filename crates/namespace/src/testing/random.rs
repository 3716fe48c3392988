//! Random operations on the machine and on the model: after each, both have answered the same and every attribute is the
//! same; at the end the records fit together. A failure is shrunk until it reads like a shell session.

use super::action::{action, people};
use super::pair::Pair;
use proptest::prelude::*;
use proptest::sample::select;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_does(
        actions in prop::collection::vec((0usize..5, action()), 1..300),
        shards in select(vec![1u16, 2, 64]),
        forgetful in any::<bool>(),
        repeats in any::<bool>(),
    ) {
        let mut pair = Pair::new(shards, forgetful, repeats);
        for (i, (who, action)) in actions.iter().enumerate() {
            pair.who = people()[*who].clone();
            pair.run(action);
            if i % 50 == 49 {
                pair.compare();
            }
        }
        pair.compare();
    }
}
