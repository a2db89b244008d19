// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import JSON
import TestSupport
import WidgetEvents
import WidgetModel

/// Generates the workload's events from the seed.
struct EventMaker {
    private enum Sort {
        case user, device, widget, everyone, everyoneMatching, allKinds, foreground, background, view, environment
        case move, movePush, malformed, operatorReload, person
    }

    private static let start = Timestamp(rfc3339: "2026-01-01T00:00:00Z") ?? Timestamp(microseconds: 0)

    private let world: ChaosWorld
    private let topics: ChaosTopics
    /// Beginning of the run. Plans of stacks look a day ahead from the present, so people act about now.
    private let now: Timestamp
    private var random: SeededRandom
    private var number = 0
    /// Number of events of people so far, a millisecond each. All events are too many for that: those of a crowd are
    /// thousands at once, and a time after that of the message would count as that one.
    private var acts = 0
    /// Number of views of a widget so far, at least two hours apart.
    private var views: [String: Int] = [:]
    private var movers: [String: MoverState] = [:]

    /// Assumed state of a mover's widget; the log decides.
    private struct MoverState {
        var isPlaced = false
        var clock = 0
    }

    init(world: ChaosWorld, topics: ChaosTopics, seed: UInt64, now: Timestamp = Timestamp.now()) {
        self.world = world
        self.topics = topics
        self.now = now
        random = SeededRandom(seed: seed, stream: "events")
    }

    private mutating func nextID() -> String {
        number += 1
        return "chaos-\(number)"
    }

    /// Placements of all stable widgets.
    mutating func placements() -> [ChaosEvent] {
        world.widgets.map { widget in
            var event = make(.placed(widget.placement), at: Self.start)
            event.lifecycle = .placed(widget.placement)
            event.lifecycleTime = Self.start
            return event
        }
    }

    /// Pushes for everybody in the crowd.
    mutating func crowd() -> [ChaosEvent] {
        world.crowd.map { user in
            var event = make(
                .reload(ReloadRequest(app: ChaosWorld.crowdApp, audience: .user(user), kinds: .all, reason: .push)),
                at: Self.start)
            event.marks = world.ofUser[ChaosWorld.key(ChaosWorld.crowdApp, user)] ?? []
            event.sources = event.marks.map { .timeline(world.timelines[$0].id) }
            return event
        }
    }

    /// Registrations of all devices.
    mutating func registrations() -> [ChaosEvent] {
        ChaosDevices.registrations.map { make($0.event, at: Self.start, key: $0.user) }
    }

    mutating func next() -> ChaosEvent {
        let sort = random.element(weighted: [
            (Sort.user, 460), (.device, 90), (.widget, 90), (.foreground, 60), (.background, 40), (.view, 90),
            (.environment, 20), (.move, 70), (.movePush, 40), (.everyone, 3), (.everyoneMatching, 4), (.allKinds, 1),
            (.operatorReload, 6), (.malformed, 2), (.person, 80),
        ])
        let app = random.element(world.active)
        switch sort {
        case .user, .foreground, .background, .operatorReload:
            let user = random.element(world.users)
            return targeted(app, .user(user), world.ofUser[ChaosWorld.key(app.name, user)] ?? [], sort)
        case .device:
            let device = "\(random.element(world.users))-d\(random.integer(0..<2))"
            return targeted(app, .device(device), world.ofDevice[ChaosWorld.key(app.name, device)] ?? [], sort)
        case .widget:
            let widget = random.element(world.widgets).placement
            let index = world.ofWidget[ChaosWorld.key(widget.app, widget.widget)] ?? 0
            var event = make(
                .reload(ReloadRequest(app: widget.app, audience: .widget(widget.widget), kinds: .all, reason: .push)),
                at: Self.start)
            event.marks = [index]
            event.sources = [.timeline(world.timelines[index].id)]
            return event
        case .everyone, .allKinds: return everyone(app, allKinds: sort == .allKinds)
        case .everyoneMatching: return everyoneMatching(app)
        case .view: return view()
        case .environment: return environment(app)
        case .move: return move(app)
        case .person: return person(app)
        case .movePush:
            let person = random.element(world.movers)
            var event = make(
                .reload(ReloadRequest(app: app.name, audience: .user(person), kinds: .all, reason: .push)),
                at: Self.start)
            event.sources = [.person(app.name, person)]
            return event
        case .malformed:
            var event = ChaosEvent(
                id: nextID(),
                message: .malformed(topic: random.element(topics.inputs), key: random.element(world.users)))
            event.isRefused = true
            return event
        }
    }

    private mutating func make(_ event: FreshetEvent, at time: Timestamp, key: String? = nil) -> ChaosEvent {
        let id = nextID()
        return ChaosEvent(id: id, message: .event(OutgoingEvent(event, id: id, time: time, key: key)))
    }

    private mutating func kinds(of app: ChaosApp) -> KindScope {
        if random.chance(0.5) { return .all }
        let names = app.kinds.map(\.definition.name)
        return KindScope(names: [random.element(names), random.element(names)]) ?? .all
    }

    private mutating func targeted(
        _ app: ChaosApp, _ audience: Audience, _ timelines: [Int], _ sort: Sort
    ) -> ChaosEvent {
        let kinds = kinds(of: app)
        let group = random.chance(0.15) ? random.integer(0..<ChaosWorld.groups) : nil
        let matching = group.map { ChaosWorld.configuration([("group", .number(JSONNumber($0)))]) }
        let reason: ReloadReason =
            switch sort {
            case .foreground: .foreground
            case .background: .background
            case .operatorReload: .operator
            default: .push
            }
        let request = ReloadRequest(
            app: app.name, audience: audience, kinds: kinds, matching: matching, reason: reason)
        var event = make(.reload(request), at: Self.start)
        event.marks = timelines.filter { index in
            let timeline = world.timelines[index]
            return kinds.contains(timeline.identity.kind) && (group == nil || timeline.group == group)
        }
        event.sources = event.marks.map { .timeline(world.timelines[$0].id) }
        return event
    }

    private mutating func everyone(_ app: ChaosApp, allKinds: Bool) -> ChaosEvent {
        let reason: ReloadReason = random.chance(0.2) ? .foreground : .push
        let kind = random.element(app.kinds).definition.name
        let scope = allKinds ? KindScope.all : KindScope.kinds([kind])
        let request = ReloadRequest(app: app.name, audience: .everyone, kinds: scope, reason: reason)
        var event = make(.reload(request), at: Self.start)
        if allKinds {
            event.appBump = app.name
            event.sources = [.app(app.name)]
        } else {
            event.kindBumps = [(app.name, kind)]
            event.sources = [.kind(app.name, kind)]
        }
        return event
    }

    private mutating func everyoneMatching(_ app: ChaosApp) -> ChaosEvent {
        let kinds = kinds(of: app)
        let group = random.integer(0..<ChaosWorld.groups)
        let request = ReloadRequest(
            app: app.name, audience: .everyone, kinds: kinds,
            matching: ChaosWorld.configuration([("group", .number(JSONNumber(group)))]), reason: .push)
        var event = make(.reload(request), at: Self.start)
        event.marks = world.timelines.indices.filter { index in
            let timeline = world.timelines[index]
            return timeline.identity.app == app.name && kinds.contains(timeline.identity.kind)
                && timeline.group == group
        }
        event.sources = app.kinds.map(\.definition.name).filter(kinds.contains).map { .group(app.name, $0, group) }
        return event
    }

    private mutating func view() -> ChaosEvent {
        let widget = random.element(world.widgets).placement
        let key = ChaosWorld.key(widget.app, widget.widget)
        // Sometimes within an hour of the previous view, so that it does not count.
        let repeats = random.chance(0.2) && (views[key] ?? 0) > 0
        if !repeats { views[key, default: 0] += 1 }
        let time = Self.start + .seconds(7_200 * (views[key] ?? 1)) + (repeats ? .seconds(600) : .zero)
        var event = make(.viewed(app: widget.app, widget: widget.widget), at: time, key: widget.user)
        event.view = (world.ofWidget[key] ?? 0, time)
        return event
    }

    /// A significant time change: the environment stays, and all of the device's widgets are reloaded.
    private mutating func environment(_ app: ChaosApp) -> ChaosEvent {
        let number = random.integer(0..<world.users.count)
        let user = world.users[number]
        let device = "\(user)-d\(random.integer(0..<2))"
        let place = ChaosWorld.environment(number)
        let time = Self.start + .seconds(self.number)
        var event = make(
            .environmentChanged(app: app.name, device: device, environment: place, significantTimeChange: true),
            at: time, key: user)
        event.marks = world.ofDevice[ChaosWorld.key(app.name, device)] ?? []
        event.sources = event.marks.map { .timeline(world.timelines[$0].id) }
        event.lifecycle = .environment(app: app.name, device: device, place)
        event.lifecycleTime = time
        return event
    }

    // MARK: Stacks, shortcuts and donations

    /// An event of one of few people with stable widgets: their stacks are planned again and again.
    private mutating func person(_ app: ChaosApp) -> ChaosEvent {
        let user = random.element(Array(world.users.prefix(6)))
        let widgets = world.widgets.map(\.placement).filter {
            $0.app == app.name && $0.user == user && $0.device == "\(user)-d0"
        }
        let kind = random.element(app.kinds).definition.name
        acts += 1
        // Some events arrive late: they must not override newer ones.
        let time = now + .milliseconds(acts - (random.chance(0.1) ? 20 : 0))
        let change: PersonEvent.Change
        let at: Timestamp
        switch random.integer(0..<10) {
        case 0...1: (change, at) = (.stack(widgets.map(\.widget).filter { _ in random.chance(0.7) }), time)
        case 2 where !widgets.isEmpty:
            let widget = random.element(widgets)
            let timeZone = widget.environment.timeZone
            (change, at) = (.turned(widget.widget, kind: widget.kind, timeZone: timeZone), time)
        case 3:
            let ranges = random.chance(0.5) ? [time..<(time + .seconds(1_800))] : []
            (change, at) = (.shortcuts(random.chance(0.5) ? [kind] : [], ranges), time)
        default:
            // Each of three times has a kind of its own on several days, so that habits are learned and differ, however
            // long the run is: one is about to begin, and the others come when no turn by hand is respected any longer.
            let (days, time) = (random.integer(1..<4), random.integer(0..<3))
            let habit = app.kinds[time % app.kinds.count].definition.name
            (change, at) = (.donated(kind: habit), now + .seconds(9_000 * time - 86_400 * days))
        }
        let person = PersonEvent(app: app.name, user: user, change: change, time: at)
        var event = make(person.message, at: at, key: user)
        event.person = person
        return event
    }

    // MARK: People whose widgets come and go

    private mutating func move(_ app: ChaosApp) -> ChaosEvent {
        let person = random.element(world.movers)
        let kind = random.element(app.kinds).definition
        let widget = "\(person)-\(kind.name)-\(random.integer(0..<2))"
        let device = "\(person)-d\(random.integer(0..<2))"
        let key = ChaosWorld.key(app.name, widget)
        var state = movers[key] ?? MoverState()
        state.clock += 1
        // Some events arrive late: they must not override newer ones.
        let time = Self.start + .seconds(60 * (random.chance(0.1) ? max(1, state.clock - 2) : state.clock))
        defer { movers[key] = state }
        let roll = random.integer(0..<100)
        if !state.isPlaced || roll < 25 {
            state.isPlaced = true
            let placement = WidgetPlacement(
                app: app.name, widget: widget, user: person, device: device, kind: kind.name,
                family: random.chance(0.5) ? .systemSmall : .systemMedium,
                configuration: moverConfiguration(of: kind, person), environment: moverEnvironment())
            return lifecycle(.placed(placement), .placed(placement), at: time, person)
        }
        if roll < 55 {
            let configuration = moverConfiguration(of: kind, person)
            return lifecycle(
                .configured(app: app.name, widget: widget, configuration: configuration),
                .configured(app: app.name, widget: widget, configuration), at: time, person)
        }
        if roll < 80 {
            state.isPlaced = false
            return lifecycle(
                .removed(app: app.name, widget: widget), .removed(app: app.name, widget: widget), at: time, person)
        }
        // For all widgets of the device, later than each of their separate clocks.
        let environment = moverEnvironment()
        let late = Self.start + .seconds(60 * state.clock + 30)
        return lifecycle(
            .environmentChanged(
                app: app.name, device: device, environment: environment, significantTimeChange: false),
            .environment(app: app.name, device: device, environment), at: late, person)
    }

    private mutating func lifecycle(
        _ message: FreshetEvent, _ lifecycle: ChaosEvent.Lifecycle, at time: Timestamp, _ person: String
    ) -> ChaosEvent {
        var event = make(message, at: time, key: person)
        event.lifecycle = lifecycle
        event.lifecycleTime = time
        return event
    }

    private mutating func moverConfiguration(of kind: KindDefinition, _ person: String) -> WidgetConfiguration {
        let place = random.integer(0..<4)
        if kind.sharing == .shared {
            return ChaosWorld.configuration([
                ("city", .string("x\(place)")), ("group", .number(JSONNumber(place % ChaosWorld.groups))),
            ])
        }
        return ChaosWorld.configuration([
            ("group", .number(JSONNumber(place % ChaosWorld.groups))), ("moved", .bool(true)),
        ])
    }

    private mutating func moverEnvironment() -> WidgetEnvironment {
        WidgetEnvironment(
            storedLocale: random.element(["en-GB", "de-DE", "fr-FR"]),
            timeZone: random.element(["Europe/London", "Asia/Tokyo"]))
    }
}

extension KindScope {
    func contains(_ kind: String) -> Bool {
        switch self {
        case .all: true
        case .kinds(let names): names.contains { Text.equal($0, kind) }
        }
    }
}
