import PostgresClient
import WidgetModel
import WidgetStore

/// An event of the batch that changes a person's stacks, shortcuts or habits, in log order.
struct PersonStep: Sendable {
    enum Operation: Sendable {
        case change(PersonChange)
        case viewed(View, at: Timestamp)
    }

    /// Content that was viewed: a donation, or the widget that a person has turned a stack to.
    struct View: Sendable {
        /// Combinations that it counts for.
        let keys: [HabitKey]
        /// Nil: that of the person's widgets.
        let timeZone: String?
    }

    let record: Int
    let app: RegisteredApp
    let user: String
    let operation: Operation
    let isOrderedByArrival: Bool

    var key: ScopedIdentifier { ScopedIdentifier(app.id, user) }

    /// The widget that the person has turned a stack to.
    var turnedTo: ScopedIdentifier? {
        if case .change(.turned(_, _, let widget, _)) = operation { ScopedIdentifier(app.id, widget) } else { nil }
    }

    fileprivate var needsTimeZone: Bool {
        if case .viewed(let view, _) = operation { view.timeZone == nil } else { false }
    }
}

/// Applies a batch's steps to the stored people and computes the writes. Pure.
struct PersonFold {
    fileprivate struct State {
        var record: PersonRecord
        /// Stored stacks and shortcuts, until a step needs them. Donations, which are most of the steps, do not.
        var undecoded: String?
        let timeZone: String?
        var learned = false
        var arranged = false
        var planning = PersonWrite.Planning.never
    }

    /// A change that takes a widget out of the stacks of its former owner.
    private typealias Departure = (key: ScopedIdentifier, change: PersonChange, isOrderedByArrival: Bool)

    private let names: [Int32: String]
    private var people: [ScopedIdentifier: State] = [:]
    /// The database's time, known before any step is applied; no change counts as later, and a later stored time counts as
    /// none.
    var now = Timestamp.distantFuture
    /// People whose rows were read, if they have any.
    private var known: Set<ScopedIdentifier> = []
    /// Departures of other people's widgets, in log order.
    private var departures: [Departure] = []
    private(set) var ignored: [IgnoredEvent] = []
    /// People whose stored state cannot be read.
    private var unreadable: Set<ScopedIdentifier> = []
    /// Events that unreadable state prevents.
    private(set) var rejected: [RejectedEvent] = []

    init(of directory: KindDirectory) {
        names = Dictionary(directory.apps.values.map { ($0.id, $0.name) }) { $1 }
    }

    /// Adds people.
    ///
    /// - Parameter stored: their rows.
    mutating func add(_ keys: [PersonKey], stored: [StoredPerson]) {
        known.formUnion(keys.lazy.map { ScopedIdentifier($0.appID, $0.user) })
        for person in stored {
            let key = ScopedIdentifier(person.appID, person.user)
            if let record = PersonRecord(app: names[person.appID] ?? "", habits: person.habits, arrangement: nil) {
                people[key] = State(record: record, undecoded: person.arrangement, timeZone: person.timeZone)
            } else {
                unreadable.insert(key)
            }
        }
        let waiting = departures
        departures = []
        for departure in waiting { apply(departure) }
    }

    /// People with further ones, of whom nothing is wanted but their rows.
    static func with(_ people: [PersonKey], _ owners: [PersonKey]) -> [PersonKey] {
        var known = Set(people.map { ScopedIdentifier($0.appID, $0.user) })
        return people + owners.filter { known.insert(ScopedIdentifier($0.appID, $0.user)).inserted }
    }

    /// People whose rows the steps need.
    static func needed(_ steps: [PersonStep]) -> [PersonKey] {
        var keys: [ScopedIdentifier: PersonKey] = [:]
        for step in steps {
            keys[step.key, default: PersonKey(appID: step.app.id, user: step.user)].needsTimeZone =
                step.needsTimeZone || keys[step.key]?.needsTimeZone == true
        }
        return Array(keys.values)
    }

    /// Applies a step.
    ///
    /// - Parameter view: what the widget shows that the step turns a stack to.
    mutating func apply(_ step: PersonStep, turnedTo view: PersonStep.View? = nil) {
        var isReadable = !unreadable.contains(step.key)
        if isReadable, case .change = step.operation { isReadable = decodeArrangement(of: step.key) }
        guard isReadable else {
            rejected.append(
                RejectedEvent(
                    record: step.record, app: step.app.name, code: "unreadablePerson",
                    message: "the stored stacks, shortcuts or habits of this user cannot be read"))
            return
        }
        guard var state = people.removeValue(forKey: step.key) else { return }
        defer { people[step.key] = state }
        switch step.operation {
        case .change(let change):
            let change = change.notAfter(now)
            let effect = state.apply(change, isOrderedByArrival: step.isOrderedByArrival)
            if effect == .ignored { ignored.append(IgnoredEvent(record: step.record, reason: .older)) }
            // A turn by hand is a view as well.
            if effect != .ignored, let view, case .turned(_, _, _, let time) = change { state.learn(view, at: time) }
        case .viewed(let view, let time): state.learn(view, at: min(time, now))
        }
    }

    /// Returns whether a person's stacks and shortcuts can be read.
    private mutating func decodeArrangement(of key: ScopedIdentifier) -> Bool {
        guard let text = people[key]?.undecoded else { return true }
        guard var stored = PersonRecord(app: names[key.appID] ?? "", habits: nil, arrangement: text) else {
            return false
        }
        stored.forgetTimes(after: now)
        people[key]?.undecoded = nil
        people[key]?.record.stacks = stored.stacks
        people[key]?.record.sets = stored.sets
        return true
    }

    /// Takes a widget that was removed or given to another user out of its owner's stacks.
    mutating func apply(_ change: PersonChange, of user: String, _ app: RegisteredApp, isOrderedByArrival: Bool) {
        apply((ScopedIdentifier(app.id, user), change, isOrderedByArrival))
    }

    private mutating func apply(_ departure: Departure) {
        guard known.contains(departure.key) else { return departures.append(departure) }
        guard decodeArrangement(of: departure.key) else { return }
        _ = people[departure.key]?.apply(departure.change, isOrderedByArrival: departure.isOrderedByArrival)
    }

    /// People whose rows are needed for departures.
    var missing: [PersonKey] {
        Set(departures.map(\.key)).map { PersonKey(appID: $0.appID, user: $0.id.text) }
    }

    /// People that have changed.
    var writes: [PersonWrite] {
        people.compactMap { key, state in
            guard state.learned || state.arranged else { return nil }
            return PersonWrite(
                appID: key.appID, user: key.id.text, habits: state.learned ? state.record.habits.encoded : nil,
                arrangement: state.arranged ? state.record.storedArrangement : nil, planning: state.planning)
        }
    }
}

extension PersonFold.State {
    fileprivate mutating func apply(_ change: PersonChange, isOrderedByArrival: Bool) -> PersonRecord.Effect {
        let effect = record.apply(change, isOrderedByArrival: isOrderedByArrival)
        if effect != .ignored { arranged = true }
        if effect == .changed { planning = .now }
        return effect
    }

    fileprivate mutating func learn(_ view: PersonStep.View, at time: Timestamp) {
        let halfHour = HalfHour(at: time, timeZone: view.timeZone ?? timeZone ?? "UTC")
        guard record.apply(.viewed(keys: view.keys, at: halfHour)) == .changed else { return }
        learned = true
        if planning == .never { planning = .soon }
    }
}
