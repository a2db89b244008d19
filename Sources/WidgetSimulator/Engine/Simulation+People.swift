import JSON
import Randomness
import WidgetEvents
import WidgetModel

extension Simulation {
    /// Indices of a member's widgets and stack.
    private struct Places {
        var widgets: [Int32] = []
        var kinds: [Int] = []
        var stack: Int32?
        var app = ""
    }

    /// Runs a population until the end, together with other events.
    ///
    /// - Parameter others: in the order of their times.
    package mutating func run(
        _ population: inout Population, others: [TimedEvent] = []
    ) async throws {
        let arrivals = population.arrivals
        var next = 0
        try await apply(others, &next, before: options.begin)
        for (time, event) in arrivals {
            try await apply(others, &next, before: time)
            try await apply(event, at: time)
        }
        let places = population.members.map(self.places)
        var services = ServiceReloads(kinds: kinds.count, seed: options.seed)
        var heap = AppointmentHeap()
        for member in places.indices where !places[member].widgets.isEmpty {
            heap.push(population.nextTime(of: member), Int32(member))
        }
        var actions = 0
        while let entry = heap.take(through: options.end - .microseconds(1)) {
            actions += 1
            if actions.isMultiple(of: 256) {
                try Task.checkCancellation()
                await Task.yield()
            }
            try await apply(others, &next, before: entry.time)
            try await reloadEveryone(&services, before: entry.time)
            try await work(before: entry.time)
            advance(to: entry.time)
            let member = Int(entry.owner)
            try await act(population.take(of: member), population.members[member], places[member])
            try await workNow()
            heap.push(population.nextTime(of: member), entry.owner)
        }
        try await apply(others, &next, before: options.end)
        try await finish()
    }

    /// Applies events until the end.
    package mutating func run(_ events: [TimedEvent]) async throws {
        var next = 0
        try await apply(events, &next, before: options.end)
        try await finish()
    }

    private mutating func finish() async throws {
        try await work(before: options.end)
        // Timelines live, and plans hold, until the end.
        advance(to: options.end)
        finishStacks()
    }

    private mutating func apply(
        _ events: [TimedEvent], _ next: inout Int, before end: Timestamp
    ) async throws {
        while next < events.count, events[next].time < end {
            try await apply(events[next].event, at: events[next].time)
            next += 1
        }
    }

    private func places(of member: Population.Member) -> Places {
        var places = Places()
        for placement in member.placements {
            places.widgets.append(widgetByName[ScopedName(app: placement.app, name: placement.widget)] ?? -1)
            places.kinds.append(kindsByApp[placement.app]?[placement.kind] ?? -1)
        }
        guard let first = member.stacked.first else { return places }
        places.app = member.placements[first].app
        places.stack = people.stack(places.app, member.user, member.device, Population.stack)
        return places
    }

    // MARK: Actions

    private mutating func act(
        _ action: Population.Action, _ member: Population.Member, _ places: Places
    ) async throws {
        let place = Int(action.place)
        switch action.deed {
        case .look: lookAtHomeScreen(member, places)
        case .push: request(.push, member, place, places)
        case .background: request(.background, member, place, places)
        case .want: try await want(place, member, places)
        }
    }

    private mutating func lookAtHomeScreen(_ member: Population.Member, _ places: Places) {
        let top = places.stack.flatMap { self.top(of: $0) } ?? member.stacked.first.map { member.placements[$0].widget }
        for place in places.widgets.indices
        where !member.stacked.contains(place) || member.placements[place].widget == top {
            see(place, member, places)
        }
    }

    private mutating func see(_ place: Int, _ member: Population.Member, _ places: Places) {
        guard places.widgets[place] >= 0 else { return }
        let placement = member.placements[place]
        note(FreshetEvent(app: placement.app, .view(widget: placement.widget)))
        view(places.widgets[place])
    }

    /// Looks at the home screen for a widget, turns the stack to it if another one is on top, and uses the app at
    /// times.
    private mutating func want(_ place: Int, _ member: Population.Member, _ places: Places) async throws {
        lookAtHomeScreen(member, places)
        try await workNow()
        let placement = member.placements[place]
        if let stack = places.stack, member.stacked.contains(place) {
            let isFound = top(of: stack).map { Text.equal($0, placement.widget) } ?? (place == member.stacked[0])
            if isMeasuring {
                counts.stacks.wanted += 1
                counts.stacks.found += isFound ? 1 : 0
            }
            if !isFound {
                apply(
                    FreshetEvent(
                        app: places.app, user: member.user,
                        .person(.turned(device: member.device, stack: Population.stack, widget: placement.widget))))
                try await workNow()
                see(place, member, places)
                try await workNow()
            }
        }
        // Half of the views of content go on in the app, and some of those change it.
        let draw = random.below(10)
        guard draw < 5 else { return }
        if places.stack != nil {
            let interaction = DonatedInteraction(
                kind: placement.kind, configuration: placement.configuration, device: member.device,
                timeZone: member.environment.timeZone)
            apply(FreshetEvent(app: placement.app, user: member.user, .interaction(interaction)))
            try await workNow()
        }
        if draw < 2 { request(.foreground, member, place, places) }
    }

    /// Requests a reload of all of the person's widgets with the kind of the one at `place`.
    private mutating func request(
        _ reason: ReloadReason, _ member: Population.Member, _ place: Int, _ places: Places
    ) {
        note(member.reload(reason, place))
        if isMeasuring { counts.events += 1 }
        let kind = places.kinds[place]
        var last: Int32 = -1
        while true {
            // The next timeline in order, of few.
            var next = Int32.max
            for (widget, other) in zip(places.widgets, places.kinds) where other == kind && widget >= 0 {
                let timeline = widgets[Int(widget)].timeline
                if timeline > last, timeline < next { next = timeline }
            }
            guard next < .max else { return }
            self.request(reason, next)
            last = next
        }
    }

    private mutating func apply(_ event: FreshetEvent) {
        note(event)
        applyEvent(event)
    }

    private mutating func note(_ event: @autoclosure () -> FreshetEvent) {
        if options.keepsEvents { counts.applied.append((now, event())) }
    }

    // MARK: Services

    private mutating func reloadEveryone(_ services: inout ServiceReloads, before end: Timestamp) async throws {
        while services.next(from: options.begin) < end {
            let time = services.next(from: options.begin)
            let kind = services.take()
            let isShared = kinds[kind].definition.sharing == .shared
            // Of kinds with content for one person each, everyone is reloaded seldom.
            guard isShared || services.random.chance(0.02) else { continue }
            try await work(before: time)
            advance(to: time)
            apply(
                FreshetEvent(
                    ReloadRequest(
                        app: kinds[kind].app, audience: .everyone, kinds: .kinds([kinds[kind].definition.name]),
                        reason: .push)))
            try await workNow()
        }
    }
}

extension Population.Member {
    /// Event that reloads all of the person's widgets with the kind of the one at `place`.
    fileprivate func reload(_ reason: ReloadReason, _ place: Int) -> FreshetEvent {
        let placement = placements[place]
        return FreshetEvent(
            ReloadRequest(app: placement.app, audience: .user(user), kinds: .kinds([placement.kind]), reason: reason))
    }
}

/// Times at which services reload everyone: of each kind about every six hours.
private struct ServiceReloads {
    private let kinds: Int
    private var number = 0
    private var jitter: Int
    fileprivate var random: SeededGenerator

    init(kinds: Int, seed: UInt64) {
        self.kinds = max(1, kinds)
        random = SeededGenerator(seed: seed, stream: -2)
        jitter = random.below(3_600_000_000)
    }

    func next(from begin: Timestamp) -> Timestamp {
        let step = Int64(21_600_000_000 / kinds)
        return Timestamp(microseconds: begin.microseconds + Int64(number + 1) * step + Int64(jitter % Int(step)))
    }

    /// The kind whose turn it is.
    mutating func take() -> Int {
        defer {
            number += 1
            jitter = random.below(3_600_000_000)
        }
        return number % kinds
    }
}
