//! Makes up random histories. The first steps make the pools; the others are whatever people, clouds
//! and clocks do.

use super::dice::Dice;
use super::history::History;
use super::step::{ClusterDeed, CustomizationDeed, Field, Health, PoolDeed, Refresh, Step};
use super::trouble::Trouble;

const CUSTOMIZATIONS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CLAIMS: [&str; 6] = ["c1", "c2", "c3", "c4", "c5", "c6"];
/// Clusters that a step may be about; a pool rarely has more.
const CLUSTERS: u32 = 8;

impl History {
    /// A history of so many steps that follows from the seed.
    pub fn random(seed: u64, length: usize) -> Self {
        let mut dice = Dice::new(seed);
        let mut steps = opening(&mut dice);
        while steps.len() < length {
            steps.push(any_step(&mut dice));
        }
        steps.truncate(length);
        Self { seed, steps }
    }
}

/// The pools as people first make them.
fn opening(dice: &mut Dice) -> Vec<Step> {
    let mut steps = vec![Step::MakePool { pool: "p1".into(), size: dice.between(0, 3) }];
    let limits = [Field::MaxSize, Field::MaxConcurrent, Field::InstallAttemptsLimit];
    for field in limits.into_iter().chain([Field::RunningCount, Field::ResumeTimeout]) {
        if dice.happens(35) {
            steps.push(set_field(dice, "p1", field));
        }
    }
    if dice.happens(45) {
        let count = usize::try_from(dice.between(1, 4)).unwrap_or(1);
        let names: Vec<String> =
            CUSTOMIZATIONS.iter().take(count).map(|name| (*name).to_owned()).collect();
        for customization in &names {
            steps.push(Step::DoToCustomization {
                customization: customization.clone(),
                deed: CustomizationDeed::Make,
            });
        }
        steps.push(Step::List { pool: "p1".into(), customizations: names });
    }
    if dice.happens(30) {
        steps.push(Step::MakePool { pool: "p2".into(), size: dice.between(0, 2) });
    }
    steps.push(Step::Wait { minutes: dice.between(1, 60) });
    steps
}

fn any_pool(dice: &mut Dice) -> String {
    dice.pick(&["p1", "p1", "p1", "p2"]).to_owned()
}

fn any_customization(dice: &mut Dice) -> String {
    dice.pick(&CUSTOMIZATIONS).to_owned()
}

fn any_claim(dice: &mut Dice) -> String {
    dice.pick(&CLAIMS).to_owned()
}

fn any_cluster(dice: &mut Dice) -> usize {
    usize::try_from(dice.below(CLUSTERS)).unwrap_or_default()
}

fn any_step(dice: &mut Dice) -> Step {
    match dice.below(100) {
        0..28 => Step::Wait { minutes: any_minutes(dice) },
        28..32 => Step::Sleep { minutes: any_minutes(dice) },
        32..34 => Step::Reboot,
        34..36 => {
            Step::MoveClock { minutes: dice.pick(&[-100_000, -600, -4, 4, 30, 600, 100_000]) }
        }
        36..58 => any_claim_step(dice),
        58..74 => any_pool_step(dice),
        74..82 => any_customization_step(dice),
        82..91 => any_cluster_step(dice),
        _ => any_trouble_step(dice),
    }
}

fn any_minutes(dice: &mut Dice) -> u32 {
    match dice.below(4) {
        0 => dice.between(1, 5),
        1 => dice.between(5, 60),
        2 => dice.between(60, 600),
        _ => dice.between(600, 3000),
    }
}

fn any_claim_step(dice: &mut Dice) -> Step {
    let claim = any_claim(dice);
    match dice.below(10) {
        0..6 => {
            let hours = if dice.happens(40) { Some(dice.between(1, 48)) } else { None };
            Step::Claim { claim, pool: any_pool(dice), hours }
        }
        6..8 => Step::Release { claim },
        8 => Step::Extend { claim, hours: dice.between(1, 24) },
        _ => Step::Move { claim, pool: any_pool(dice) },
    }
}

fn any_pool_step(dice: &mut Dice) -> Step {
    let pool = any_pool(dice);
    match dice.below(16) {
        0 => Step::MakePool { pool, size: dice.between(0, 3) },
        1..9 => {
            let field = dice.pick(Field::ALL);
            set_field(dice, &pool, field)
        }
        9..11 => {
            let mut customizations: Vec<String> = Vec::new();
            for name in CUSTOMIZATIONS {
                if dice.happens(50) {
                    customizations.push(name.to_owned());
                }
            }
            Step::List { pool, customizations }
        }
        11 => Step::Refresh { pool, policy: dice.pick(Refresh::ALL) },
        _ => Step::DoToPool { pool, deed: dice.pick(PoolDeed::ALL) },
    }
}

fn set_field(dice: &mut Dice, pool: &str, field: Field) -> Step {
    let value = match field {
        Field::Size | Field::RunningCount => Some(dice.between(0, 4)),
        _ if dice.happens(25) => None,
        Field::MaxSize => Some(dice.between(0, 6)),
        Field::MaxConcurrent => Some(dice.between(0, 3)),
        Field::InstallAttemptsLimit => Some(dice.between(1, 3)),
        Field::ResumeTimeout => Some(dice.between(10, 60)),
        Field::Lifetime | Field::HibernateAfter => Some(dice.between(1, 72)),
    };
    Step::Set { pool: pool.to_owned(), field, value }
}

fn any_customization_step(dice: &mut Dice) -> Step {
    let customization = any_customization(dice);
    if dice.happens(15) {
        return Step::Doom { customization };
    }
    let deed = dice.pick(&[
        CustomizationDeed::Make,
        CustomizationDeed::Make,
        CustomizationDeed::Mend,
        CustomizationDeed::Mend,
        CustomizationDeed::Break,
        CustomizationDeed::Delete,
    ]);
    Step::DoToCustomization { customization, deed }
}

fn any_cluster_step(dice: &mut Dice) -> Step {
    let number = any_cluster(dice);
    if dice.happens(45) {
        return Step::SetHealth { number, health: dice.pick(Health::ALL) };
    }
    Step::DoToCluster { number, deed: dice.pick(ClusterDeed::ALL) }
}

fn any_trouble_step(dice: &mut Dice) -> Step {
    match dice.below(12) {
        0..5 => Step::BeginTrouble(dice.pick(Trouble::ALL)),
        5..10 => Step::EndTrouble(dice.pick(Trouble::ALL)),
        10 => Step::RemoveImageSet,
        _ => Step::RestoreImageSet,
    }
}
