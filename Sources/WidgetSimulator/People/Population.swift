// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Randomness
import WidgetEvents
import WidgetModel

/// Synthetic people with widgets of a manifest's kinds: they look at their home screens, follow habits, and get pushes.
package struct Population: Sendable {
    struct Member: Sendable {
        let number: Int
        var random: SeededGenerator
        let environment: WidgetEnvironment
        /// Offset of local time from UTC at the beginning, in seconds. A clock change during the simulation is ignored.
        let offset: Int
        /// In the order of their places.
        var placements: [WidgetPlacement] = []
        /// Places of the widgets that lie in the stack.
        var stacked: [Int] = []
        let views: [SyntheticView]
        var nextView = 0
        /// Actions of the present day that are still to come, the last one first.
        var actions: [Action] = []
        var day = -1
        /// Indices of the widgets and their kinds in the simulation, -1 for none, and of the stack.
        var widgets: [Int32] = []
        var kinds: [Int] = []
        var stack: Int32?

        var user: String { "u\(number)" }
        var device: String { "d\(number)" }
    }

    struct Action: Sendable {
        enum Deed: Sendable {
            case look
            /// The person wants to see a widget.
            case want
            case push
            case background
        }

        let time: Timestamp
        let deed: Deed
        /// Place of the widget.
        let place: Int32
    }

    static let stack = "home"
    private static let zones = [
        ("en-GB", "Europe/London"), ("de-DE", "Europe/Berlin"), ("en-US", "America/New_York"), ("ja-JP", "Asia/Tokyo"),
    ]

    private let options: SimulationOptions
    var members: [Member] = []
    /// Weekday of the first local day, from 0, Monday.
    private let weekday: Int
    /// Pushes a day for a widget, by kind.
    private let pushes: [String: Double]

    init(of apps: [AppDefinition], _ options: SimulationOptions) {
        self.options = options
        weekday = HalfHour(at: options.begin, timeZone: "UTC").weekday
        var random = SeededGenerator(seed: options.seed, stream: -1)
        var pushes: [String: Double] = [:]
        for app in apps {
            for kind in app.kinds { pushes["\(app.name)/\(kind.name)"] = 0.5 + Double(random.below(50)) / 10 }
        }
        self.pushes = pushes
        let populations: [HabitPopulation] = [.weekdays, .evenings, .weekends, .irregular, .changing]
        members.reserveCapacity(options.people)
        for number in 0..<options.people {
            var random = SeededGenerator(seed: options.seed, stream: number)
            let zone = Self.zones[random.below(Self.zones.count)]
            let days = weekday + options.warmUpDays + options.days + 1
            let views = populations[random.below(populations.count)].views(days: days, random: &random)
            let date = Date(timeIntervalSince1970: Double(options.begin.microseconds) / 1_000_000)
            var member = Member(
                number: number, random: random,
                environment: WidgetEnvironment(storedLocale: zone.0, timeZone: zone.1),
                offset: TimeZone(identifier: zone.1)?.secondsFromGMT(for: date) ?? 0, views: views)
            place(&member, apps)
            members.append(member)
        }
    }

    private func place(_ member: inout Member, _ apps: [AppDefinition]) {
        let kinds = apps.flatMap { app in app.kinds.map { (app.name, $0) } }
        guard !kinds.isEmpty else { return }
        let isStacked = member.random.chance(options.stacks)
        for place in 0..<(3 + member.random.below(5)) {
            let (app, kind) = kinds[member.random.below(kinds.count)]
            let family = kind.families[member.random.below(kind.families.count)]
            member.placements.append(
                WidgetPlacement(
                    app: app, widget: "w\(member.number)-\(place)", user: member.user, device: member.device,
                    kind: kind.name, family: family, configuration: configuration(of: kind, &member.random),
                    environment: member.environment))
        }
        guard isStacked else { return }
        let app = member.placements[0].app
        let places = member.placements.indices.filter { member.placements[$0].app == app }
        if places.count > 1 { member.stacked = places }
    }

    /// A configuration with one of the values that the kind offers, as far as it names them.
    private func configuration(of kind: KindDefinition, _ random: inout SeededGenerator) -> WidgetConfiguration {
        var values = JSONObject()
        if let intent = kind.intent {
            for parameter in intent.parameters where parameter.count == .one {
                guard case .enumeration(let cases) = parameter.type, !cases.isEmpty else { continue }
                values[parameter.name] = .string(cases[random.below(cases.count)].name)
            }
        } else if kind.sharing == .shared {
            // Places of different popularity.
            values["place"] = .string("place \(random.below(1 + random.below(40)))")
        }
        let configuration = (try? WidgetConfiguration(.object(values))) ?? .empty
        return kind.intent?.resolve(configuration, family: kind.anyFamily).problems.isEmpty == false
            ? .empty : configuration
    }

    /// Placements of all widgets and stacks, during the first hour.
    package var arrivals: [TimedEvent] {
        var arrivals: [TimedEvent] = []
        for member in members {
            let step = 3_600_000_000 / Int64(max(1, members.count))
            let time = Timestamp(microseconds: options.begin.microseconds + Int64(member.number) * step)
            for (place, placement) in member.placements.enumerated() {
                arrivals.append((time + .microseconds(place), FreshetEvent(placement)))
            }
            guard let first = member.stacked.first else { continue }
            let arrangement = StackArrangement(
                device: member.device, name: Self.stack, widgets: member.stacked.map { member.placements[$0].widget })
            arrivals.append(
                (
                    time + .microseconds(member.placements.count),
                    FreshetEvent(
                        app: member.placements[first].app, user: member.user, .person(.stack(arrangement)))
                ))
        }
        return arrivals.sorted { $0.time < $1.time }
    }

    // MARK: Days

    /// Time of a member's next action, whose day is made up if needed.
    mutating func nextTime(of member: Int) -> Timestamp {
        while members[member].actions.isEmpty { beginDay(of: member) }
        return members[member].actions[members[member].actions.count - 1].time
    }

    mutating func take(of member: Int) -> Action { members[member].actions.removeLast() }

    private mutating func beginDay(of index: Int) {
        members[index].day += 1
        let day = members[index].day
        let start = options.begin.microseconds + Int64(day) * 86_400_000_000 - Int64(members[index].offset) * 1_000_000
        // Nothing before the widgets are placed.
        let earliest = options.begin.microseconds + 3_600_000_000
        func add(_ deed: Action.Deed, _ place: Int, minute: Int, to member: inout Member) {
            let time = start + Int64(minute) * 60_000_000 + Int64(member.random.below(60_000_000))
            guard time >= earliest else { return }
            member.actions.append(
                Action(time: Timestamp(microseconds: time), deed: deed, place: Int32(place)))
        }
        let count = members[index].placements.count
        guard count > 0 else { return add(.look, 0, minute: 720, to: &members[index]) }
        while members[index].nextView < members[index].views.count {
            let view = members[index].views[members[index].nextView]
            guard view.day <= weekday + day else { break }
            members[index].nextView += 1
            if view.day == weekday + day {
                add(.want, view.widget % count, minute: view.minute, to: &members[index])
            }
        }
        for _ in 0..<members[index].random.count(mean: options.looks, tries: 32) {
            let minute = 420 + members[index].random.below(960)
            add(.look, 0, minute: minute, to: &members[index])
        }
        for place in 0..<count {
            let placement = members[index].placements[place]
            let mean = pushes["\(placement.app)/\(placement.kind)"] ?? 1
            for _ in 0..<members[index].random.count(mean: mean) {
                let minute = members[index].random.below(1_440)
                let deed: Action.Deed = members[index].random.chance(0.1) ? .background : .push
                add(deed, place, minute: minute, to: &members[index])
            }
        }
        members[index].actions.sort { $0.time > $1.time }
    }
}

extension Simulation {
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
        for member in population.members.indices { find(&population.members[member]) }
        let services = serviceReloads
        var nextService = 0
        var heap = AppointmentHeap()
        for member in population.members.indices where !population.members[member].placements.isEmpty {
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
            try await apply(services, &nextService, before: entry.time)
            try await work(before: entry.time)
            advance(to: entry.time)
            let member = Int(entry.owner)
            try await act(population.take(of: member), population.members[member])
            try await workNow()
            heap.push(population.nextTime(of: member), entry.owner)
        }
        try await apply(others, &next, before: options.end)
        try await finish()
    }

    /// Finds a member's widgets, their kinds and the stack.
    private func find(_ member: inout Population.Member) {
        for placement in member.placements {
            member.widgets.append(widgetByName[ScopedName(app: placement.app, name: placement.widget)] ?? -1)
            member.kinds.append(kindsByApp[placement.app]?[placement.kind] ?? -1)
        }
        guard let first = member.stacked.first else { return }
        member.stack = people.stack(
            app: member.placements[first].app, user: member.user, device: member.device, name: Population.stack)
    }

    // MARK: Actions

    private mutating func act(_ action: Population.Action, _ member: Population.Member) async throws {
        let place = Int(action.place)
        switch action.deed {
        case .look: lookAtHomeScreen(member)
        case .push: request(.push, member, place)
        case .background: request(.background, member, place)
        case .want: try await want(place, member)
        }
    }

    private mutating func lookAtHomeScreen(_ member: Population.Member) {
        let top = member.stack.flatMap { self.top(of: $0) } ?? member.stacked.first.map { member.placements[$0].widget }
        for place in member.widgets.indices
        where !member.stacked.contains(place) || member.placements[place].widget == top {
            see(place, member)
        }
    }

    private mutating func see(_ place: Int, _ member: Population.Member) {
        guard member.widgets[place] >= 0 else { return }
        let placement = member.placements[place]
        note(FreshetEvent(app: placement.app, .view(widget: placement.widget)))
        view(member.widgets[place])
    }

    /// Looks at the home screen for a widget, turns the stack to it if another one is on top, and uses the app at
    /// times.
    private mutating func want(_ place: Int, _ member: Population.Member) async throws {
        lookAtHomeScreen(member)
        try await workNow()
        let placement = member.placements[place]
        if let stack = member.stack, member.stacked.contains(place) {
            let isFound = top(of: stack).map { Text.equal($0, placement.widget) } ?? (place == member.stacked[0])
            if isMeasuring {
                report.wanted += 1
                report.found += isFound ? 1 : 0
            }
            if !isFound {
                apply(
                    FreshetEvent(
                        app: placement.app, user: member.user,
                        .person(.turned(device: member.device, stack: Population.stack, widget: placement.widget))))
                try await workNow()
                see(place, member)
                try await workNow()
            }
        }
        // Half of the views of content go on in the app, and some of those change it.
        let draw = random.below(10)
        guard draw < 5 else { return }
        if member.stack != nil {
            let interaction = DonatedInteraction(
                kind: placement.kind, configuration: placement.configuration, device: member.device,
                timeZone: member.environment.timeZone)
            apply(FreshetEvent(app: placement.app, user: member.user, .interaction(interaction)))
            try await workNow()
        }
        if draw < 2 { request(.foreground, member, place) }
    }

    /// Requests a reload of all of the person's widgets with the kind of the one at `place`.
    private mutating func request(_ reason: ReloadReason, _ member: Population.Member, _ place: Int) {
        note(member.reload(reason, place))
        if isMeasuring { report.events += 1 }
        let kind = member.kinds[place]
        var last: Int32 = -1
        while true {
            // The next timeline in order, of few.
            var next = Int32.max
            for (widget, other) in zip(member.widgets, member.kinds) where other == kind && widget >= 0 {
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
        if options.keepsEvents { applied.append((now, event())) }
    }

    // MARK: Services

    /// Reloads of everyone by services, of each kind about every six hours. Those of kinds with content for one person
    /// each are seldom.
    private var serviceReloads: [TimedEvent] {
        var events: [TimedEvent] = []
        guard !kinds.isEmpty else { return events }
        var random = SeededGenerator(seed: options.seed, stream: -2)
        let step = 21_600_000_000 / kinds.count
        var jitter = random.below(3_600_000_000)
        for number in 0... {
            let time = options.begin + .microseconds((number + 1) * step + jitter % step)
            guard time < options.end else { break }
            jitter = random.below(3_600_000_000)
            let kind = kinds[number % kinds.count]
            guard kind.definition.sharing == .shared || random.chance(0.02) else { continue }
            let request = ReloadRequest(
                app: kind.app, audience: .everyone, kinds: .kinds([kind.definition.name]), reason: .push)
            events.append((time, FreshetEvent(request)))
        }
        return events
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
