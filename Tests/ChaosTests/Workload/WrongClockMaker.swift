// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import JSON
import TestSupport
import WidgetEvents
import WidgetModel

/// Error of a producer's clock.
enum WrongClock: String, CaseIterable, Sendable {
    /// The time of the event and the timestamp of the record are a day ahead.
    case ahead
    /// Only the time of the event is a day ahead.
    case eventAhead
    /// The event has no time, and the timestamp of the record, which is in nanoseconds, counts as none: changes are
    /// refused, and pushes need no time.
    case nanoseconds

    /// Time of the event, for one that is published at a time.
    func eventTime(_ time: Timestamp) -> Timestamp? { self == .nanoseconds ? nil : time + .seconds(86_400) }

    /// Timestamp of the record; nil for the producer's own.
    func recordMilliseconds(_ time: Timestamp) -> Int64? {
        switch self {
        case .ahead: (time + .seconds(86_400)).microseconds / 1_000
        case .eventAhead: nil
        case .nanoseconds: time.microseconds * 1_000
        }
    }
}

/// Generates the events of people whose device has a wrong clock, and their correct events afterwards, which must take
/// effect. What applies between is unknown, since such events count as of the time of their application.
struct WrongClockMaker {
    private let world: ChaosWorld
    private var random: SeededRandom
    private var number = 0

    init(world: ChaosWorld, seed: UInt64) {
        self.world = world
        random = SeededRandom(seed: seed, stream: "wrong clock")
    }

    /// Whether any event was dated wrongly.
    var isUsed: Bool { number > 0 }

    mutating func next(_ clock: WrongClock) -> ChaosEvent {
        let app = random.element(world.active)
        let person = random.element(world.misdated)
        let kind = random.element(app.kinds)
        let device = random.integer(0..<2)
        let now = Timestamp.now()
        var event: ChaosEvent
        switch random.integer(0..<100) {
        case ..<40: event = placed(app, kind, person, device, at: now)
        case ..<60:
            let configuration = configuration(of: kind)
            let widget = Self.widget(person, kind, device)
            event = make(
                .configured(app: app.name, widget: widget, configuration: configuration), at: now, person,
                .configured(app: app.name, widget: widget, configuration))
        // Removals leave the stack alone, which is on the first device.
        case ..<70: event = removed(app, kind, person, device: 1, at: now)
        case ..<80:
            let name = Self.device(person, device)
            let environment = environment()
            event = make(
                .environmentChanged(
                    app: app.name, device: name, environment: environment, significantTimeChange: false), at: now,
                person, .environment(app: app.name, device: name, environment))
        case ..<88: event = changed(app, person, .stack([Self.widget(person, kind, 0)]), at: now)
        case ..<94: event = changed(app, person, .shortcuts([kind.definition.name], []), at: now)
        default: event = registered(person, at: now)
        }
        if clock == .nanoseconds {
            if random.chance(0.5) {
                event = push(app, person, at: now)
            } else {
                event.isRefused = true
            }
            (event.lifecycle, event.lifecycleTime, event.person) = (nil, nil, nil)
        }
        event.clock = clock
        return event
    }

    /// Correct events: all widgets are placed anew, some are then removed, and stacks, shortcuts and registrations are
    /// set once more.
    mutating func corrections(at now: Timestamp) -> [ChaosEvent] {
        var events: [ChaosEvent] = []
        for (index, person) in world.misdated.enumerated() {
            for app in world.active {
                for kind in app.kinds {
                    for device in 0..<2 { events.append(placed(app, kind, person, device, at: now)) }
                    if index.isMultiple(of: 2) {
                        events.append(removed(app, kind, person, device: 1, at: now + .milliseconds(1)))
                    }
                }
                events.append(changed(app, person, .stack(app.kinds.map { Self.widget(person, $0, 0) }), at: now))
                events.append(changed(app, person, .shortcuts([], []), at: now))
            }
            events.append(registered(person, at: now))
        }
        return events
    }

    // MARK: Events

    private mutating func placed(
        _ app: ChaosApp, _ kind: ChaosKind, _ person: String, _ device: Int, at time: Timestamp
    ) -> ChaosEvent {
        let placement = WidgetPlacement(
            app: app.name, widget: Self.widget(person, kind, device), user: person,
            device: Self.device(person, device), kind: kind.definition.name, family: .systemSmall,
            configuration: configuration(of: kind), environment: environment())
        return make(.placed(placement), at: time, person, .placed(placement))
    }

    private mutating func removed(
        _ app: ChaosApp, _ kind: ChaosKind, _ person: String, device: Int, at time: Timestamp
    ) -> ChaosEvent {
        let widget = Self.widget(person, kind, device)
        return make(
            .removed(app: app.name, widget: widget), at: time, person, .removed(app: app.name, widget: widget))
    }

    private mutating func changed(
        _ app: ChaosApp, _ person: String, _ change: PersonEvent.Change, at time: Timestamp
    ) -> ChaosEvent {
        let change = PersonEvent(app: app.name, user: person, change: change, time: time)
        var event = make(change.message, at: time, person)
        event.person = change
        return event
    }

    private mutating func push(_ app: ChaosApp, _ person: String, at time: Timestamp) -> ChaosEvent {
        var event = make(
            .reload(ReloadRequest(app: app.name, audience: .user(person), kinds: .all, reason: .push)), at: time, person
        )
        event.sources = [.person(app.name, person)]
        return event
    }

    private mutating func registered(_ person: String, at time: Timestamp) -> ChaosEvent {
        make(ChaosDevices.registration(user: person, device: Self.device(person, 0)), at: time, person)
    }

    private mutating func make(
        _ event: FreshetEvent, at time: Timestamp, _ person: String, _ lifecycle: ChaosEvent.Lifecycle? = nil
    ) -> ChaosEvent {
        number += 1
        let id = "misdated-\(number)"
        var made = ChaosEvent(id: id, message: .event(OutgoingEvent(event, id: id, time: time, key: person)))
        made.lifecycle = lifecycle
        made.lifecycleTime = time
        return made
    }

    private static func device(_ person: String, _ device: Int) -> String { "\(person)-d\(device)" }

    private static func widget(_ person: String, _ kind: ChaosKind, _ device: Int) -> String {
        "\(person)-\(kind.definition.name)-\(device)"
    }

    private mutating func configuration(of kind: ChaosKind) -> WidgetConfiguration {
        let place = random.integer(0..<4)
        let group = ("group", JSONValue.number(JSONNumber(place % ChaosWorld.groups)))
        return ChaosWorld.configuration(
            kind.definition.sharing == .shared ? [("city", .string("y\(place)")), group] : [group])
    }

    private mutating func environment() -> WidgetEnvironment {
        WidgetEnvironment(
            storedLocale: random.element(["en-GB", "de-DE"]),
            timeZone: random.element(["Europe/London", "Asia/Tokyo"]))
    }
}
