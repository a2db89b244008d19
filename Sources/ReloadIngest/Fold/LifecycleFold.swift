import WidgetEvents
import WidgetModel
import WidgetStore

/// Error of folding lifecycle events.
enum LifecycleFoldError: Error {
    /// A stored widget has a kind that is not in the directory yet.
    case directoryIsBehind
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

    /// - Parameter now: the database's time, read behind the locks. No change counts as later, since one from a clock that
    ///   is ahead would precede all correct ones until then; a later stored time counts as none.
    init(stored: [StoredWidget], directory: KindDirectory, now: Timestamp) throws(LifecycleFoldError) {
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

    /// Widgets and devices whose rows the steps need.
    ///
    /// - Parameter turned: widgets that people have turned their stacks to.
    static func needed(
        _ steps: [LifecycleStep], turned: Set<ScopedIdentifier> = []
    ) -> (widgets: [WidgetScope.Name], devices: [WidgetScope.Name]) {
        var widgets = turned
        var devices: Set<ScopedIdentifier> = []
        for step in steps {
            switch step.operation {
            case .widget(let id, _), .view(let id, _), .defaults(let id, _, _):
                widgets.insert(ScopedIdentifier(step.app.id, id))
            case .device(let id, _, _): devices.insert(ScopedIdentifier(step.app.id, id))
            }
        }
        return (widgets.map { ($0.appID, $0.id.text) }, devices.map { ($0.appID, $0.id.text) })
    }

    /// Applies a step.
    ///
    /// - Returns: the removal of a widget for its owner's stacks; nil unless the step removes it or gives it to another
    ///   user.
    @discardableResult
    mutating func apply(_ step: LifecycleStep) -> (user: String, change: PersonChange)? {
        var removal: (user: String, change: PersonChange)?
        guard !rejectUnreadable(step) else { return nil }
        switch step.operation {
        case .widget(let id, let change):
            let key = ScopedIdentifier(step.app.id, id)
            if case .configured = change, let kind = retiredKind(of: key, step.app),
                !WidgetLifecycle.isForeign(widgets[key]?.record, to: step.handling.user)
            {
                rejected.append(
                    RejectedEvent(
                        record: step.record, app: step.app.name, code: "unknownKind",
                        message:
                            "/widget: widget \(Text.quoted(id)) is of kind \(Text.quoted(kind)), which was retired",
                        pointer: "/widget"))
                return nil
            }
            if case .configured(let configuration, _) = change,
                let problem = problem(with: configuration, of: key, step)
            {
                rejected.append(
                    RejectedEvent(
                        record: step.record, app: step.app.name, code: "invalidValue", message: "\(problem)",
                        pointer: problem.pointer))
                return nil
            }
            let owner = widgets[key]?.record.flatMap { $0.removed ? nil : $0.user }
            let change = change.notAfter(now)
            let outcome = apply(change, to: key, step)
            if case .removed = change, widgets[key]?.record?.isUnplaced == true {
                // A tombstone is not reported as an effect, because the result must look the same as for another user's
                // widget.
                ignore(step, .unknown)
            } else if case .ignored(let reason) = outcome {
                ignore(step, reason)
            } else if case .removed(_, let time) = change, case .removed(let record) = outcome {
                removal = (record.user, .removed(widget: id, at: time))
            } else if let owner, let record = outcome.record, !Text.equal(record.user, owner) {
                removal = (owner, .removed(widget: id, at: record.changedAt))
            }
        case .defaults(let id, let kind, let defaults):
            decide(ScopedIdentifier(step.app.id, id), kind, defaults, step)
        case .view(let id, let time):
            let record = widgets[ScopedIdentifier(step.app.id, id)]?.record
            if let reason = WidgetLifecycle.ignores(viewOf: record, by: step.handling.user) {
                ignore(step, reason)
            } else {
                views.append((appID: step.app.id, widget: id, time: time))
            }
        case .device(let id, let environment, let time):
            move(device: id, to: environment, at: time, step)
        }
        return removal
    }

    /// Rejects a step of a widget that this version cannot read, and returns whether it did. A step of a device with such
    /// a widget is rejected, so that its replay changes that widget, and applied to the device's other widgets.
    private mutating func rejectUnreadable(_ step: LifecycleStep) -> Bool {
        let (id, reason, pointer): (String, String?, String)
        switch step.operation {
        case .widget(let widget, _), .view(let widget, _), .defaults(let widget, _, _):
            (id, reason, pointer) = (widget, unreadable[ScopedIdentifier(step.app.id, widget)], "/widget")
        case .device(let device, _, _):
            (id, reason, pointer) = (device, unreadableDevices[ScopedIdentifier(step.app.id, device)], "/device")
        }
        guard let reason else { return false }
        // Dynamic defaults come without an event; the kind's next placement asks for them again.
        if case .defaults = step.operation { return true }
        rejected.append(
            RejectedEvent(
                record: step.record, app: step.app.name, code: "unreadableWidget",
                message: "\(pointer): \(Text.quoted(id)): \(reason)", pointer: pointer))
        return pointer == "/widget"
    }

    /// Applies a device's environment to its widgets.
    private mutating func move(
        device id: String, to environment: WidgetEnvironment, at time: Timestamp, _ step: LifecycleStep
    ) {
        let moved = devices[ScopedIdentifier(step.app.id, id)] ?? []
        guard moved.count <= Self.deviceLimit else {
            rejected.append(
                RejectedEvent(
                    record: step.record, app: step.app.name, code: "audienceTooLarge",
                    message: "/device: device \(Text.quoted(id)) has more than \(Self.deviceLimit) widgets",
                    pointer: "/device"))
            return
        }
        var (reason, isApplied) = (WidgetIgnoredReason.unknown, false)
        for key in moved where retiredKind(of: key, step.app) == nil {
            switch apply(.environment(environment, at: min(time, now)), to: key, step) {
            case .changed:
                widgets[key]?.isMoved = true
                isApplied = true
            case .ignored(let found): reason = found
            default: isApplied = true
            }
        }
        if !isApplied, unreadableDevices[ScopedIdentifier(step.app.id, id)] == nil { ignore(step, reason) }
    }

    /// What a widget of a user shows, as the donation of a view; nil if there is no such widget.
    func view(of widget: String, user: String, _ app: RegisteredApp) -> PersonStep.View? {
        guard let record = widgets[ScopedIdentifier(app.id, widget)]?.record, !record.removed,
            Text.equal(record.user, user), let kind = directory.kind(record.kind, of: app)?.definition
        else { return nil }
        let values = kind.effective(record.configuration, family: record.family)
        return PersonStep.View(
            keys: HabitKey.keys(kind: kind.name, configuration: values, intent: kind.intent),
            timeZone: record.environment.timeZone)
    }

    /// Completes a widget's configuration with these defaults and makes its timeline due now.
    private mutating func decide(
        _ key: ScopedIdentifier, _ kind: String, _ defaults: WidgetConfiguration, _ step: LifecycleStep
    ) {
        guard var state = widgets[key], var record = state.record, !record.removed, Text.equal(record.kind, kind),
            !WidgetLifecycle.isForeign(record, to: step.handling.user),
            let intent = directory.kind(kind, of: step.app)?.definition.intent
        else { return }
        let completed = intent.completed(record.configuration, from: defaults)
        // The definition may have changed in the meantime.
        if intent.resolve(completed, family: record.family).problems.isEmpty { record.configuration = completed }
        state.record = record
        state.isWritten = true
        state.isPlaced = true
        state.cause = step.position
        widgets[key] = state
    }

    /// The first value that the definition of the widget's kind does not allow.
    private func problem(
        with configuration: WidgetConfiguration, of key: ScopedIdentifier, _ step: LifecycleStep
    ) -> ModelError? {
        guard let record = widgets[key]?.record, !record.removed,
            !WidgetLifecycle.isForeign(record, to: step.handling.user)
        else { return nil }
        return directory.kind(record.kind, of: step.app)?.definition.problem(with: configuration, family: record.family)
    }

    private mutating func ignore(_ step: LifecycleStep, _ reason: WidgetIgnoredReason) {
        ignored.append(IgnoredEvent(record: step.record, reason: reason))
    }

    /// The widget's kind if it was retired; nil otherwise.
    private func retiredKind(of key: ScopedIdentifier, _ app: RegisteredApp) -> String? {
        guard let record = widgets[key]?.record, !record.removed, directory.kind(record.kind, of: app) == nil else {
            return nil
        }
        return record.kind
    }

    private mutating func apply(
        _ change: WidgetChange, to key: ScopedIdentifier, _ step: LifecycleStep
    ) -> WidgetOutcome {
        var state = widgets[key] ?? State(record: nil, stored: nil)
        let kind = state.record.flatMap { directory.kind($0.kind, of: step.app) }
        var change = change.keepingDefaults(of: state.record, kind?.definition.intent)
        if step.handling.isOrderedByArrival, let latest = state.record?.changedAt { change = change.notBefore(latest) }
        let outcome = WidgetLifecycle.apply(change, to: state.record, limitedTo: step.handling.user)
        if let record = outcome.record {
            move(key, from: state.record, to: record)
            state.record = record
            state.resolved = step.resolved ?? state.resolved
            state.isWritten = true
            state.cause = step.position
            state.reason = change.reason
            if case .placed = change { state.isPlaced = true }
            if case .placed = outcome { state.isBack = true }
            widgets[key] = state
        }
        return outcome
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
    /// New row of a widget.
    struct Widget: Sendable {
        var write: WidgetWrite
        /// Timeline to look up; nil if its row is known or the widget is removed.
        var timeline: TimelineID?
    }

    /// Widgets that were not stored before.
    var inserts: [Widget] = []
    /// Widgets whose rows were read.
    var updates: [Widget] = []
    /// Timelines that widgets start to show.
    var placements: [TimelinePlacement] = []
    /// Timeline rows that widgets stop showing.
    var departures: [Int64] = []
    /// Placeholders for the new environments of widgets.
    var placeholders: [PlaceholderKey] = []
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
    func writes(awaitingDefaults patience: Duration? = nil) throws(LifecycleFoldError) -> LifecycleWrites {
        var writes = LifecycleWrites()
        var placed: [TimelineID: TimelinePlacement] = [:]
        var departed: Set<Int64> = []
        var placeholders: Set<PlaceholderKey> = []
        let apps = Dictionary(directory.apps.values.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for (key, state) in widgets where state.isWritten {
            guard let record = state.record else { continue }
            guard let app = apps[key.appID] else { throw .directoryIsBehind }
            guard let kind = kind(of: record, state, app) else {
                // An app without kinds has never placed a widget.
                if record.isUnplaced { continue }
                throw .directoryIsBehind
            }
            var id: TimelineID?
            let placement = record.placement
            let known = state.resolved.flatMap { $0.placement == placement ? $0 : nil }
            let resolved = record.removed ? nil : known ?? kind.definition.resolve(placement)
            if let identity = resolved?.identity {
                let shown = identity.id
                id = shown
                var delay = Duration.zero
                let isNew =
                    state.isBack
                    || state.stored.map { $0.kindID != kind.id || !Text.equal($0.user, record.user) } ?? true
                if let patience, isNew, let cause = state.cause, !kind.isRetired,
                    kind.definition.intent?.undecided(in: record.configuration).isEmpty == false
                {
                    delay = patience
                    writes.undecided.append(
                        UndecidedWidget(app: app, kind: kind.definition, record: record, cause: cause))
                }
                // Placing has no effect on a timeline that is neither new, orphaned nor asleep.
                if state.stored?.timeline?.id != shown || state.isPlaced {
                    placed[shown] = TimelinePlacement(
                        id: shown, kindID: kind.id, identity: identity, lane: .interactive, cause: state.cause,
                        reason: state.reason, delay: min(delay, placed[shown]?.delay ?? delay))
                }
            }
            if state.isMoved, !record.removed, !kind.isRetired {
                placeholders.insert(
                    PlaceholderKey(kind: kind, family: record.family, environment: record.environment))
            }
            let old = state.stored?.timeline
            if let old, old.id != id { departed.insert(old.row) }
            let isKept = id != nil && old?.id == id
            let widget = LifecycleWrites.Widget(
                write: WidgetWrite(
                    appID: key.appID, id: record.widget, kindID: kind.id, family: record.family,
                    timelineID: isKept ? old?.row : nil, user: record.user, device: record.device,
                    environment: record.environment, configuration: resolved?.configuration,
                    misfits: resolved?.problems.count ?? 0,
                    changedAt: record.changedAt, isBack: state.isBack),
                timeline: isKept ? nil : id)
            if state.stored == nil {
                writes.inserts.append(widget)
            } else {
                writes.updates.append(widget)
            }
        }
        writes.placements = Array(placed.values)
        writes.departures = Array(departed)
        writes.placeholders = Array(placeholders)
        return writes
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
