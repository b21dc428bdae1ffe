//! The lines on standard output that say a broker is ready, worded as Kafka's log has them, since container wrappers
//! and scripts wait for those: for `Transitioning from RECOVERY to RUNNING`, `[KafkaServer id=1] started` or
//! `Kafka Server started`. Each is written at once; if nobody listens any more, that is no reason to stop.

use std::fmt::Display;
use std::io::{self, Write};

use crate::base::{NodeId, WallTime};
use crate::server::Server;

pub(super) fn announce(server: &Server, wall: WallTime) {
    let time = Timestamp(wall);
    let several = server.nodes().count() > 1;
    for NodeId(id) in server.nodes() {
        say(format_args!(
            "[{time}] INFO [BrokerLifecycleManager id={id}] Transitioning from RECOVERY to RUNNING. (huld)"
        ));
        say(format_args!("[{time}] INFO [KafkaServer id={id}] started (huld)"));
        say(format_args!("[{time}] INFO [KafkaRaftServer nodeId={id}] Kafka Server started (huld)"));
    }
    if let Some(address) = server.control() {
        say(format_args!("huld: control at http://{address}"));
    }
    for (NodeId(id), name, addresses) in server.listeners() {
        for address in addresses {
            match several {
                true => say(format_args!("huld: broker {id} listening on {name}://{address}")),
                false => say(format_args!("huld: listening on {name}://{address}")),
            }
        }
    }
}

fn say(line: impl Display) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

/// A time as Kafka's log writes it, in UTC: `2025-01-31 23:59:59,999`.
struct Timestamp(WallTime);

impl Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WallTime(millis) = self.0;
        let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02},{:03}", rest % 1000)
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
///
/// Counted in eras of 400 years that begin on a 1st of March, so that the leap day is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_kafka_writes_them() {
        let written = |millis| Timestamp(WallTime(millis)).to_string();
        assert_eq!(written(0), "1970-01-01 00:00:00,000");
        assert_eq!(written(951_782_400_000), "2000-02-29 00:00:00,000");
        assert_eq!(written(951_868_800_000), "2000-03-01 00:00:00,000");
        assert_eq!(written(1_000_000_000_000), "2001-09-09 01:46:40,000");
        assert_eq!(written(1_798_761_599_999), "2026-12-31 23:59:59,999");
    }
}
