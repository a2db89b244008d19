import Foundation
import JSON
import Randomness
import WidgetEvents
package import WidgetModel

/// Synthetic people with widgets of a manifest's kinds: they look at their home screens, follow habits, and get pushes.
package struct Population: Sendable {
    /// Size and habits of a population.
    package struct Options: Sendable {
        package var people: Int
        /// Mean looks at the home screen on a day, without those by habit.
        package var looks = 12.0
        /// Share of people who keep widgets of one app in a stack.
        package var stacks = 0.5

        package init(people: Int) {
            self.people = people
        }
    }

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
        let person: SyntheticPerson
        var nextView = 0
        /// Actions of the present day that are still to come, the last one first.
        var actions: [Action] = []
        var day = -1

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

    let options: Options
    private(set) var members: [Member] = []
    private let begin: Timestamp
    /// Weekday of the first local day, from 0, Monday.
    private let weekday: Int
    /// Pushes a day for a widget, by kind.
    private let pushes: [String: Double]

    package init(_ options: Options, of apps: [AppDefinition], begin: Timestamp, days: Int, seed: UInt64) {
        self.options = options
        self.begin = begin
        weekday = HalfHour(at: begin, timeZone: "UTC").weekday
        var random = SeededGenerator(seed: seed, stream: -1)
        var pushes: [String: Double] = [:]
        for app in apps {
            for kind in app.kinds { pushes["\(app.name)/\(kind.name)"] = 0.5 + Double(random.below(50)) / 10 }
        }
        self.pushes = pushes
        let populations: [HabitPopulation] = [.weekdays, .evenings, .weekends, .irregular, .changing]
        members.reserveCapacity(options.people)
        for number in 0..<options.people {
            var random = SeededGenerator(seed: seed, stream: number)
            let zone = Self.zones[random.below(Self.zones.count)]
            let person = SyntheticPerson(
                populations[random.below(populations.count)], days: weekday + days + 1, random: &random)
            let date = Date(timeIntervalSince1970: Double(begin.microseconds) / 1_000_000)
            var member = Member(
                number: number, random: random,
                environment: WidgetEnvironment(storedLocale: zone.0, timeZone: zone.1),
                offset: TimeZone(identifier: zone.1)?.secondsFromGMT(for: date) ?? 0, person: person)
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
            let time = Timestamp(microseconds: begin.microseconds + Int64(member.number) * step)
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
        let start = begin.microseconds + Int64(day) * 86_400_000_000 - Int64(members[index].offset) * 1_000_000
        // Nothing before the widgets are placed.
        let earliest = begin.microseconds + 3_600_000_000
        func add(_ deed: Action.Deed, _ place: Int, minute: Int, to member: inout Member) {
            let time = start + Int64(minute) * 60_000_000 + Int64(member.random.below(60_000_000))
            guard time >= earliest else { return }
            member.actions.append(
                Action(time: Timestamp(microseconds: time), deed: deed, place: Int32(place)))
        }
        let count = members[index].placements.count
        guard count > 0 else { return add(.look, 0, minute: 720, to: &members[index]) }
        while members[index].nextView < members[index].person.views.count {
            let view = members[index].person.views[members[index].nextView]
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
