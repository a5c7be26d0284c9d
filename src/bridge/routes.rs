//! Who has sent a request, so that its replies find the way back.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::sockets::Sender;
use crate::jupyter::{Channel, SocketName};

/// Requests that are remembered. Those that are answered are forgotten, so only ones that never get
/// an answer come up to this.
const REMEMBERED: usize = 16_384;

/// Requests that were not answered yet, by their headers: a reply bears the header of its request,
/// byte for byte.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: HashMap<Bytes, Route>,
    order: VecDeque<(Bytes, u64)>,
    count: u64,
    /// Who was asked last for input.
    asked: Option<Sender>,
}

#[derive(Debug)]
struct Route {
    number: u64,
    sender: Sender,
}

impl Routes {
    /// A request has come.
    pub(super) fn enter(&mut self, header: &Bytes, sender: Sender) {
        self.count += 1;
        let number = self.count;
        // With memory of its own: the header may be a piece of something long.
        let header = Bytes::copy_from_slice(header);
        self.order.push_back((header.clone(), number));
        self.known.insert(header, Route { number, sender });
        while self.order.len() > REMEMBERED
            && let Some((oldest, number)) = self.order.pop_front()
        {
            self.forget(&oldest, number);
        }
    }

    /// Whom a message is for that a request has caused. A reply is the last one.
    pub(super) fn find(&mut self, channel: Channel, header: &[u8]) -> Option<Sender> {
        if channel == Channel::Stdin {
            self.asked = self.known.get(header).map(|route| route.sender.clone());
            return self.asked.clone();
        }
        let route = self.known.remove(header)?;
        // Where it is the oldest there is nothing left to be remembered for.
        while let Some((front, number)) = self.order.front()
            && self.known.get(front).is_none_or(|it| it.number != *number)
        {
            self.order.pop_front();
        }
        Some(route.sender)
    }

    /// Whether this is who was asked last for input: by the identity of its connections, which is the
    /// same on all of them.
    pub(super) fn was_asked(&self, sender: &[Bytes]) -> bool {
        let asked = self.asked.as_ref().and_then(|asked| asked.first());
        asked.is_some() && asked == sender.first()
    }

    fn forget(&mut self, header: &Bytes, number: u64) {
        if self
            .known
            .get(header)
            .is_some_and(|route| route.number == number)
        {
            self.known.remove(header);
        }
    }
}

/// The socket over which messages of a channel go to one front end.
pub(super) fn socket_of(channel: Channel) -> SocketName {
    match channel {
        Channel::Control => SocketName::Control,
        Channel::Stdin => SocketName::Stdin,
        _ => SocketName::Shell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(number: usize) -> Bytes {
        Bytes::from(format!("{{\"msg_id\":\"{number}\"}}"))
    }

    fn sender(number: usize) -> Sender {
        vec![Bytes::from(number.to_string())]
    }

    #[test]
    fn replies_find_their_way_once_and_questions_more_often() {
        let mut routes = Routes::default();
        for number in 0..3 {
            routes.enter(&header(number), sender(number));
        }
        assert!(!routes.was_asked(&sender(1)));
        assert_eq!(routes.find(Channel::Stdin, &header(1)), Some(sender(1)));
        assert!(routes.was_asked(&sender(1)) && !routes.was_asked(&sender(2)));
        assert_eq!(routes.find(Channel::Shell, &header(1)), Some(sender(1)));
        assert_eq!(routes.find(Channel::Shell, &header(1)), None);
        assert_eq!(routes.order.len(), 3);
        assert_eq!(routes.find(Channel::Control, &header(0)), Some(sender(0)));
        assert_eq!(routes.order.len(), 1);
    }

    #[test]
    fn what_is_never_answered_is_forgotten_in_the_end() {
        let mut routes = Routes::default();
        for number in 0..=REMEMBERED {
            routes.enter(&header(number), sender(number));
        }
        assert_eq!(routes.find(Channel::Shell, &header(0)), None);
        assert_eq!(routes.find(Channel::Shell, &header(1)), Some(sender(1)));
        // The same again is the later one.
        routes.enter(&header(2), sender(7));
        assert_eq!(routes.find(Channel::Shell, &header(2)), Some(sender(7)));
        assert!(routes.order.len() <= REMEMBERED && routes.known.len() <= REMEMBERED);
    }
}
