// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// A widget that leaves the stacks of a user, because it was removed or given to another user.
struct Departure {
    let appID: Int32
    let widget: String
    let user: String
    let time: Timestamp
    let isOrderedByArrival: Bool
}

/// Applies a batch's lifecycle events to the stored widgets and computes the writes. Pure.
struct LifecycleFold {
    struct State {
        var record: WidgetRecord?
        let stored: StoredWidget?
        /// Latest placement by an event; the stored record's unless something has changed it since.
        var resolved: ResolvedPlacement?
        var isWritten = false
        /// Position of the latest event with an effect, and its reason.
        var cause: EventPosition?
        var reason = ReloadReason.placed
        /// Whether an event has placed the widget, which wakes a sleeping timeline.
        var isPlaced = false
        /// Whether the widget is new, or placed again after its removal.
        var isBack = false
        /// Whether an event has changed the environment of the widget's device.
        var isMoved = false
    }

    /// Largest number of a device's widgets that a change of its environment may move.
    static let deviceLimit = 10_000

    private let directory: KindDirectory
    private let now: Timestamp
    private var widgets: [ScopedIdentifier: State] = [:]
    /// Widgets by device.
    private var devices: [ScopedIdentifier: Set<ScopedIdentifier>] = [:]
    /// Stored widgets that only a newer version can read, with the reason. Their events wait as dead letters.
    private var unreadable: [ScopedIdentifier: String] = [:]
    /// Devices of these widgets.
    private var unreadableDevices: [ScopedIdentifier: String] = [:]
    private(set) var rejected: [RejectedEvent] = []
    private(set) var ignored: [IgnoredEvent] = []
    /// Views whose widget has been checked, in log order.
    private(set) var views: [WidgetView] = []

    /// - Parameter now: the database's time, read behind the locks. No change counts as later, since one from a clock
    ///   that is ahead would precede all correct ones until then; a later stored time counts as none.
    init(stored: [StoredWidget], directory: KindDirectory, now: Timestamp) throws(ApplyFailure) {
        self.directory = directory
        self.now = now
        for widget in stored {
            let key = ScopedIdentifier(widget.appID, widget.id)
            if let reason = Self.unreadable(widget, directory) {
                unreadable[key] = reason
                if widget.timeline != nil { unreadableDevices[ScopedIdentifier(widget.appID, widget.device)] = reason }
                continue
            }
            let (kind, unreadable) = (directory.kinds[widget.kindID], directory.unreadable[widget.kindID])
            guard let app = kind?.app ?? unreadable?.app, let name = kind?.definition.name ?? unreadable?.name,
                let placement = widget.placement(app: app, kind: name)
            else { throw .directoryIsBehind }
            let record = WidgetRecord(
                placement, changedAt: widget.changedAt.usable(at: now), removed: widget.timeline == nil)
            widgets[key] = State(record: record, stored: widget)
            move(key, from: nil, to: record)
        }
    }

    /// Reason why this version cannot read a widget; nil if it can.
    private static func unreadable(_ widget: StoredWidget, _ directory: KindDirectory) -> String? {
        // The kind of a widget that was never placed says nothing.
        if let kind = directory.unreadable[widget.kindID], !widget.device.isEmpty { return kind.message }
        return widget.family == nil ? "this version does not know the family of widget \(Text.quoted(widget.id))" : nil
    }

    /// Widgets and devices whose rows a batch needs: those that its events change, and the widgets that stacks are
    /// turned to.
    static func needed(_ fold: BatchFold) -> (widgets: [WidgetScope.Name], devices: [WidgetScope.Name]) {
        var widgets: Set<ScopedIdentifier> = []
        var devices: Set<ScopedIdentifier> = []
        for event in fold.changes {
            switch event.change {
            case .widget(let change): widgets.insert(ScopedIdentifier(event.app.id, change.widget))
            case .view(let widget), .person(.turned(_, _, let widget)):
                widgets.insert(ScopedIdentifier(event.app.id, widget))
            case .device(.environment(let device, _, _)): devices.insert(ScopedIdentifier(event.app.id, device))
            case .device, .person, .interaction, .reload: break
            }
        }
        if let widget = fold.defaults?.widget { widgets.insert(ScopedIdentifier(widget.app.id, widget.record.widget)) }
        return (widgets.map { ($0.appID, $0.id.text) }, devices.map { ($0.appID, $0.id.text) })
    }

    /// Applies an event about a widget or the environment of a device.
    ///
    /// - Returns: the widget, if the event removes it or gives it to another user.
    @discardableResult
    mutating func apply(_ event: FoldedChange) -> Departure? {
        switch event.change {
        case .widget(let change): return apply(change, event)
        case .view(let id):
            let key = ScopedIdentifier(event.app.id, id)
            guard !rejectUnreadable(event, id: id, pointer: "/widget", reason: unreadable[key]) else { return nil }
            if let reason = WidgetRecord.ignores(viewOf: widgets[key]?.record, by: event.handling.user) {
                ignore(event, reason)
            } else {
                views.append((appID: event.app.id, widget: id, time: event.time))
            }
        case .device(.environment(let device, let environment, _)):
            // A device with a widget that cannot be read: the event waits, so that its replay changes that widget, and
            // changes the device's other widgets now.
            let key = ScopedIdentifier(event.app.id, device)
            rejectUnreadable(event, id: device, pointer: "/device", reason: unreadableDevices[key])
            move(device: device, to: environment, event)
        case .device, .person, .interaction, .reload: break
        }
        return nil
    }

    private mutating func apply(_ change: WidgetChange, _ event: FoldedChange) -> Departure? {
        let key = ScopedIdentifier(event.app.id, change.widget)
        guard !rejectUnreadable(event, id: change.widget, pointer: "/widget", reason: unreadable[key]) else {
            return nil
        }
        guard !rejectMisfit(change, event, of: key) else { return nil }
        let before = widgets[key]?.record
        let kind = before.flatMap { directory.kind($0.kind, of: event.app) }
        let outcome = WidgetRecord.apply(
            change.keepingDefaults(of: before, kind?.definition.intent), at: time(of: event, for: before), to: before,
            limitedTo: event.handling.user)
        write(outcome, to: key, by: event, reason: change.reason)
        if case .placed = change, outcome.record != nil { widgets[key]?.isPlaced = true }
        if case .placed = outcome { widgets[key]?.isBack = true }
        if case .removed = change, widgets[key]?.record?.isUnplaced == true {
            // A tombstone is not reported as an effect, because the result must look the same as for another user's
            // widget.
            ignore(event, .unknown)
        } else if case .ignored(let reason) = outcome {
            ignore(event, reason)
        } else if let before, !before.removed, let after = outcome.record,
            after.removed || !Text.equal(after.user, before.user)
        {
            return Departure(
                appID: event.app.id, widget: change.widget, user: before.user,
                time: after.removed ? min(event.time, now) : after.changedAt,
                isOrderedByArrival: event.handling.isOrderedByArrival)
        }
        return nil
    }

    /// Rejects an event for a reason why this version cannot read a row, and returns whether there is one.
    @discardableResult
    private mutating func rejectUnreadable(
        _ event: FoldedChange, id: String, pointer: String, reason: String?
    ) -> Bool {
        guard let reason else { return false }
        reject(
            event, code: "unreadableWidget", message: "\(pointer): \(Text.quoted(id)): \(reason)", pointer: pointer)
        return true
    }

    /// Rejects a configuration that the kind does not allow, apart from values that the widget has already.
    ///
    /// - Returns: whether the event is rejected.
    private mutating func rejectMisfit(
        _ change: WidgetChange, _ event: FoldedChange, of key: ScopedIdentifier
    ) -> Bool {
        let own = widgets[key]?.record.flatMap { record in
            record.removed || WidgetRecord.isForeign(record, to: event.handling.user) ? nil : record
        }
        let problem: ModelError?
        switch change {
        case .placed(let placement) where event.resolved?.problems.isEmpty != true:
            let stored = own.flatMap { Text.equal($0.kind, placement.kind) ? $0.configuration : nil }
            problem =
                directory.kind(placement.kind, of: event.app)?.definition.problems(
                    with: placement.configuration, replacing: stored ?? .empty, family: placement.family
                ).first
        case .configured(let id, let configuration):
            guard let own else { return false }
            guard let kind = directory.kind(own.kind, of: event.app)?.definition else {
                let message = "widget \(Text.quoted(id)) is of kind \(Text.quoted(own.kind)), which was retired"
                reject(event, code: "unknownKind", message: "/widget: \(message)", pointer: "/widget")
                return true
            }
            problem = kind.problems(with: configuration, replacing: own.configuration, family: own.family).first
        case .placed, .removed: return false
        }
        if let problem { reject(event, code: "invalidValue", message: "\(problem)", pointer: problem.pointer) }
        return problem != nil
    }

    private mutating func reject(_ event: FoldedChange, code: String, message: String, pointer: String) {
        rejected.append(
            RejectedEvent(record: event.record, app: event.app.name, code: code, message: message, pointer: pointer))
    }

    /// Applies a device's environment to its widgets.
    private mutating func move(device id: String, to environment: WidgetEnvironment, _ event: FoldedChange) {
        let moved = devices[ScopedIdentifier(event.app.id, id)] ?? []
        guard moved.count <= Self.deviceLimit else {
            return reject(
                event, code: "audienceTooLarge",
                message: "/device: device \(Text.quoted(id)) has more than \(Self.deviceLimit) widgets",
                pointer: "/device")
        }
        var (reason, isApplied) = (WidgetIgnoredReason.unknown, false)
        for key in moved where !isRetired(widgets[key]?.record, event.app) {
            let record = widgets[key]?.record
            let outcome = WidgetRecord.apply(
                environment, at: time(of: event, for: record), to: record, limitedTo: event.handling.user)
            write(outcome, to: key, by: event, reason: .environment)
            switch outcome {
            case .changed:
                widgets[key]?.isMoved = true
                isApplied = true
            case .ignored(let found): reason = found
            default: isApplied = true
            }
        }
        if !isApplied, unreadableDevices[ScopedIdentifier(event.app.id, id)] == nil { ignore(event, reason) }
    }

    /// Content of the widget that the event turns a stack to; nil for other events, and if the user has no such widget.
    func content(turnedToBy event: FoldedChange) -> ViewedContent? {
        guard case .person(.turned(_, _, let widget)) = event.change, let user = event.user,
            let record = widgets[ScopedIdentifier(event.app.id, widget)]?.record, !record.removed,
            Text.equal(record.user, user), let kind = directory.kind(record.kind, of: event.app)?.definition
        else { return nil }
        let values = kind.effective(record.configuration, family: record.family)
        return ViewedContent(
            combinations: HabitContent.contents(kind: kind.name, configuration: values, intent: kind.intent),
            timeZone: record.environment.timeZone)
    }

    /// Completes a new widget's configuration with its provider's defaults, and makes its timeline due now.
    mutating func complete(_ widget: UndecidedWidget, with defaults: WidgetConfiguration) {
        let key = ScopedIdentifier(widget.app.id, widget.record.widget)
        guard unreadable[key] == nil, var state = widgets[key], var record = state.record, !record.removed,
            Text.equal(record.kind, widget.kind.name), !WidgetRecord.isForeign(record, to: widget.record.user),
            let intent = directory.kind(widget.kind.name, of: widget.app)?.definition.intent
        else { return }
        let completed = intent.completed(record.configuration, from: defaults)
        // The definition may have changed in the meantime.
        if intent.resolve(completed, family: record.family).problems.isEmpty { record.configuration = completed }
        state.record = record
        state.isWritten = true
        state.isPlaced = true
        state.cause = widget.cause
        widgets[key] = state
    }

    private mutating func ignore(_ event: FoldedChange, _ reason: WidgetIgnoredReason) {
        ignored.append(IgnoredEvent(record: event.record, reason: reason))
    }

    /// Whether the kind of a placed widget was retired.
    private func isRetired(_ record: WidgetRecord?, _ app: RegisteredApp) -> Bool {
        record.map { !$0.removed && directory.kind($0.kind, of: app) == nil } ?? false
    }

    /// Time at which an event takes effect: not after the database's, and not before that of a record which it follows
    /// by its arrival.
    private func time(of event: FoldedChange, for record: WidgetRecord?) -> Timestamp {
        let time = min(event.time, now)
        guard event.handling.isOrderedByArrival, let record else { return time }
        return max(time, record.changedAt)
    }

    private mutating func write(
        _ outcome: WidgetOutcome, to key: ScopedIdentifier, by event: FoldedChange, reason: ReloadReason
    ) {
        guard let record = outcome.record else { return }
        var state = widgets[key] ?? State(record: nil, stored: nil)
        move(key, from: state.record, to: record)
        state.record = record
        state.resolved = event.resolved ?? state.resolved
        state.isWritten = true
        state.cause = event.position
        state.reason = reason
        widgets[key] = state
    }

    private mutating func move(_ key: ScopedIdentifier, from old: WidgetRecord?, to new: WidgetRecord) {
        if let old {
            devices[ScopedIdentifier(key.appID, old.device)]?.remove(key)
        }
        if !new.removed {
            devices[ScopedIdentifier(key.appID, new.device), default: []].insert(key)
        }
    }
}

/// Writes of a batch's lifecycle events. Timelines are named by identity, since their row ids are known only after they
/// have been inserted and locked.
struct LifecycleWrites: Sendable {
    /// New row of a widget, and the timeline to look up; nil if its row is known or the widget is removed.
    typealias Widget = (write: WidgetWrite, timeline: TimelineID?)

    /// Widgets that were not stored before.
    var inserts: [Widget] = []
    /// Widgets whose rows were read.
    var updates: [Widget] = []
    /// Timelines that widgets start to show.
    var placements: [TimelinePlacement] = []
    /// Timeline rows that widgets stop showing.
    var departures: [Int64] = []
    /// Placeholders for the environments of widgets that were placed or moved.
    var placeholders: [WantedPlaceholder] = []
    /// New widgets that lack values for parameters with a dynamic default.
    var undecided: [UndecidedWidget] = []
}

/// A placed widget whose dynamic defaults are not yet known.
struct UndecidedWidget: Sendable {
    let app: RegisteredApp
    let kind: KindDefinition
    let record: WidgetRecord
    let cause: EventPosition

    var context: ConfigurationContext {
        ConfigurationContext(
            user: record.user, family: record.family, environment: record.environment, values: record.configuration)
    }
}

extension LifecycleFold {
    /// - Parameter patience: delay of the timelines of widgets whose dynamic defaults are requested; nil if none are
    ///   requested.
    func writes(awaitingDefaults patience: Duration? = nil) throws(ApplyFailure) -> LifecycleWrites {
        var writes = LifecycleWrites()
        var placed: [TimelineID: TimelinePlacement] = [:]
        var departed: Set<Int64> = []
        var placeholders: [PlaceholderKey: Bool] = [:]
        let apps = Dictionary(directory.apps.values.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for (key, state) in widgets where state.isWritten {
            guard let record = state.record else { continue }
            guard let app = apps[key.appID] else { throw .directoryIsBehind }
            guard let kind = kind(of: record, state, app) else {
                // An app without kinds has never placed a widget.
                if record.isUnplaced { continue }
                throw .directoryIsBehind
            }
            let placement = record.placement
            let known = state.resolved.flatMap { $0.placement == placement ? $0 : nil }
            let resolved = record.removed ? nil : known ?? kind.definition.resolve(placement)
            let id = resolved?.identity.id
            if let identity = resolved?.identity, let shown = id {
                var delay = Duration.zero
                if let patience, let widget = Self.undecided(record, state, kind, app) {
                    delay = patience
                    writes.undecided.append(widget)
                }
                // Placing has no effect on a timeline that is neither new, orphaned nor asleep.
                if state.stored?.timeline?.id != shown || state.isPlaced {
                    placed[shown] = TimelinePlacement(
                        id: shown, kindID: kind.id, identity: identity, lane: .interactive, cause: state.cause,
                        reason: state.reason, delay: min(delay, placed[shown]?.delay ?? delay))
                }
            }
            if state.isMoved || state.isPlaced, !record.removed, !kind.isRetired {
                let key = PlaceholderKey(kind: kind, family: record.family, environment: record.environment)
                placeholders[key] = state.isMoved || placeholders[key] == true
            }
            let old = state.stored?.timeline
            if let old, old.id != id { departed.insert(old.row) }
            let widget = Self.row(of: record, state, kind, resolved, showing: id)
            if state.stored == nil {
                writes.inserts.append(widget)
            } else {
                writes.updates.append(widget)
            }
        }
        writes.placements = Array(placed.values)
        writes.departures = Array(departed)
        writes.placeholders = placeholders.map { (key: $0, renews: $1) }
        return writes
    }

    /// The widget, if it is new and lacks values for parameters with a dynamic default.
    private static func undecided(
        _ record: WidgetRecord, _ state: State, _ kind: RegisteredKind, _ app: RegisteredApp
    ) -> UndecidedWidget? {
        let isNew =
            state.isBack || state.stored.map { $0.kindID != kind.id || !Text.equal($0.user, record.user) } ?? true
        guard isNew, let cause = state.cause, !kind.isRetired,
            kind.definition.intent?.undecided(in: record.configuration).isEmpty == false
        else { return nil }
        return UndecidedWidget(app: app, kind: kind.definition, record: record, cause: cause)
    }

    /// The new row of a widget.
    ///
    /// - Parameters:
    ///   - resolved: placement of the widget; nil if it is removed.
    ///   - id: identity of the timeline that it shows; nil likewise.
    private static func row(
        of record: WidgetRecord, _ state: State, _ kind: RegisteredKind, _ resolved: ResolvedPlacement?,
        showing id: TimelineID?
    ) -> LifecycleWrites.Widget {
        let old = state.stored?.timeline
        let isKept = id != nil && old?.id == id
        let write = WidgetWrite(
            appID: kind.appID, id: record.widget, kindID: kind.id, family: record.family,
            timelineID: isKept ? old?.row : nil, user: record.user, device: record.device,
            environment: record.environment, configuration: resolved?.configuration,
            misfits: resolved?.problems.count ?? 0, changedAt: record.changedAt, isBack: state.isBack)
        return (write, isKept ? nil : id)
    }

    /// The kind of the record's name. For a retired kind, the kind of the stored row; for a widget that was never
    /// placed, any kind.
    private func kind(of record: WidgetRecord, _ state: State, _ app: RegisteredApp) -> RegisteredKind? {
        if record.isUnplaced {
            return state.stored.flatMap { directory.kinds[$0.kindID] }
                ?? directory.kinds(of: app).values.min { $0.id < $1.id }
        }
        if let kind = directory.kind(record.kind, of: app) { return kind }
        guard let stored = state.stored, let kind = directory.kinds[stored.kindID] else { return nil }
        return kind.definition.name == record.kind ? kind : nil
    }
}
