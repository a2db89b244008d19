import PostgresClient
import WidgetModel
import WidgetStore

/// An event of the batch that changes a person's stacks, shortcuts or habits, in log order.
struct PersonStep: Sendable {
    enum Operation: Sendable {
        case change(PersonChange)
        /// A donation. Without a time zone, the time zone of the person's widgets applies.
        case viewed(kind: String, keys: [HabitKey], at: Timestamp, timeZone: String?)
    }

    let record: Int
    let app: RegisteredApp
    let user: String
    let operation: Operation
    let isOrderedByArrival: Bool

    var key: ScopedIdentifier { ScopedIdentifier(app.id, user) }

    fileprivate var needsTimeZone: Bool {
        if case .viewed(_, _, _, nil) = operation { true } else { false }
    }
}

/// Applies a batch's steps to the stored people and computes the writes. Pure.
struct PersonFold {
    private struct State {
        var record: PersonRecord
        let timeZone: String?
        var learned = false
        var arranged = false
    }

    private var people: [ScopedIdentifier: State] = [:]
    private(set) var ignored: [IgnoredEvent] = []
    /// People whose stored state cannot be read.
    private var unreadable: Set<ScopedIdentifier> = []
    /// Events of unreadable people.
    private(set) var rejected: [RejectedEvent] = []

    init(stored: [StoredPerson], of directory: KindDirectory) {
        let names = Dictionary(directory.apps.values.map { ($0.id, $0.name) }) { $1 }
        for person in stored {
            let key = ScopedIdentifier(person.appID, person.user)
            if let record = try? person.record(app: names[person.appID] ?? "") {
                people[key] = State(record: record, timeZone: person.timeZone)
            } else {
                unreadable.insert(key)
            }
        }
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

    mutating func apply(_ step: PersonStep) {
        guard !unreadable.contains(step.key) else {
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
            if state.record.apply(change, isOrderedByArrival: step.isOrderedByArrival) {
                state.arranged = true
            } else {
                ignored.append(IgnoredEvent(record: step.record, reason: .older))
            }
        case .viewed(let kind, let keys, let time, let zone):
            let halfHour = HalfHour(at: time, timeZone: zone ?? state.timeZone ?? "UTC")
            if state.record.apply(.viewed(kind: kind, keys: keys, at: halfHour)) { state.learned = true }
        }
    }

    /// People that have changed.
    var writes: [PersonWrite] {
        people.compactMap { key, state in
            guard state.learned || state.arranged else { return nil }
            return PersonWrite(
                appID: key.appID, user: key.id.text, habits: state.learned ? state.record.habits.encoded : nil,
                arrangement: state.arranged ? state.record.storedArrangement : nil)
        }
    }
}
