// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Applies a batch's events to the stored people and computes the writes. Pure.
struct PersonFold {
    fileprivate struct State {
        var record: PersonRecord
        /// Stored stacks, shortcuts and viewed contents, until an event needs them. Most donations do not.
        var undecoded: String?
        /// Time zone of one of the person's widgets.
        var timeZone: String?
        var learned = false
        var arranged = false
        var planning = PersonWrite.Planning.never
    }

    private let names: [Int32: String]
    private var people: [ScopedIdentifier: State] = [:]
    /// The database's time, known before any event is applied; no change counts as later, and a later stored time
    /// counts as none.
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
    static func with(_ people: [PersonKey], rowsOf owners: [PersonKey]) -> [PersonKey] {
        var known = Set(people.map { ScopedIdentifier($0.appID, $0.user) })
        return people + owners.filter { known.insert(ScopedIdentifier($0.appID, $0.user)).inserted }
    }

    /// People whose rows the events need.
    static func needed(_ changes: [FoldedChange]) -> [PersonKey] {
        var keys: [ScopedIdentifier: PersonKey] = [:]
        for event in changes {
            guard let key = person(of: event) else { continue }
            let needsTimeZone = event.content.map { $0.timeZone == nil } ?? false
            keys[key, default: PersonKey(appID: key.appID, user: key.id.text)].needsTimeZone =
                needsTimeZone || keys[key]?.needsTimeZone == true
        }
        return Array(keys.values)
    }

    /// The person whom an event changes; nil for other events.
    private static func person(of event: FoldedChange) -> ScopedIdentifier? {
        switch event.change {
        case .person, .interaction: event.user.map { ScopedIdentifier(event.app.id, $0) }
        case .widget, .view, .device, .reload: nil
        }
    }

    /// Applies an event.
    ///
    /// - Parameter content: content of the widget that the event turns a stack to.
    mutating func apply(_ event: FoldedChange, turnedTo content: ViewedContent? = nil) {
        guard let key = Self.person(of: event) else { return }
        var isReadable = !unreadable.contains(key)
        if isReadable, case .person = event.change { isReadable = decodeArrangement(of: key) }
        guard isReadable else {
            rejected.append(
                RejectedEvent(
                    record: event.record, app: event.app.name, code: "unreadablePerson",
                    message: "the stored stacks, shortcuts or habits of this user cannot be read"))
            return
        }
        guard var state = people.removeValue(forKey: key) else { return }
        let time = min(event.time, now)
        var effect = PersonRecord.Effect.confirmed
        if case .person(let change) = event.change {
            effect = state.record.apply(change, at: time, isOrderedByArrival: event.handling.isOrderedByArrival)
            state.note(effect)
        }
        // A turn by hand is a view as well.
        let viewed = effect.isIgnored ? nil : event.content ?? content
        let learned = viewed.map { state.learn($0, at: time) }
        people[key] = state
        if case .learned(let recurring) = learned, !recurring.isEmpty { remember(recurring, key) }
        if case .ignored(let reason) = effect { ignored.append(IgnoredEvent(record: event.record, reason: reason)) }
        if event.content != nil, case .ignored(let reason) = learned {
            ignored.append(IgnoredEvent(record: event.record, reason: reason))
        }
    }

    /// Names the combinations of a view. If the stored ones cannot be read they stay as they are.
    private mutating func remember(_ combinations: [HabitContent], _ key: ScopedIdentifier) {
        guard decodeArrangement(of: key) else { return }
        if people[key]?.record.remember(combinations) == true { people[key]?.arranged = true }
    }

    /// Notes the environment of a widget that the batch places: donations that follow may need its time zone.
    mutating func note(_ placement: WidgetPlacement, appID: Int32) {
        let key = ScopedIdentifier(appID, placement.user)
        if people[key]?.timeZone == nil { people[key]?.timeZone = placement.environment.timeZone }
    }

    /// Returns whether a person's stacks, shortcuts and viewed contents can be read.
    private mutating func decodeArrangement(of key: ScopedIdentifier) -> Bool {
        guard let text = people[key]?.undecoded else { return true }
        guard var stored = PersonRecord(app: names[key.appID] ?? "", habits: nil, arrangement: text) else {
            return false
        }
        stored.forgetTimes(after: now)
        people[key]?.undecoded = nil
        people[key]?.record.stacks = stored.stacks
        people[key]?.record.sets = stored.sets
        people[key]?.record.viewed = stored.viewed
        return true
    }

    /// Takes a widget that was removed or given to another user out of its owner's stacks.
    mutating func apply(_ departure: Departure) {
        let key = ScopedIdentifier(departure.appID, departure.user)
        guard known.contains(key) else { return departures.append(departure) }
        guard decodeArrangement(of: key), var state = people.removeValue(forKey: key) else { return }
        state.note(
            state.record.remove(
                widget: departure.widget, at: departure.time, isOrderedByArrival: departure.isOrderedByArrival))
        people[key] = state
    }

    /// People whose rows are needed for departures.
    var missing: [PersonKey] {
        Set(departures.map { ScopedIdentifier($0.appID, $0.user) }).map { PersonKey(appID: $0.appID, user: $0.id.text) }
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
    /// Effect of a view on habits.
    fileprivate enum Learned {
        /// - Parameter recurring: combinations that may be suggested from now on.
        case learned(recurring: [HabitContent])
        case ignored(WidgetIgnoredReason)
    }

    /// Notes an effect on stacks or shortcuts.
    fileprivate mutating func note(_ effect: PersonRecord.Effect) {
        if !effect.isIgnored { arranged = true }
        if effect == .changed { planning = .now }
    }

    fileprivate mutating func learn(_ content: ViewedContent, at time: Timestamp) -> Learned {
        guard !content.combinations.isEmpty else { return .ignored(.unsupportedCombination) }
        guard let timeZone = content.timeZone ?? timeZone else { return .ignored(.unknownTimeZone) }
        let halfHour = HalfHour(at: time, timeZone: timeZone)
        guard let recurring = record.learn(content.combinations, at: halfHour) else { return .learned(recurring: []) }
        learned = true
        if planning == .never { planning = .soon }
        return .learned(recurring: recurring)
    }
}
