import WidgetModel

// What ingest writes: positions, generations, marks, widgets.

extension SimulatedStore {
    struct Advance: Hashable {
        let partition: Int
        let epoch: Int64
        let expected: Int?
        let next: Int
    }

    /// `TakePartitions`, of one partition.
    mutating func take(_ partition: Int) -> Position {
        let position = Position(epoch: (positions[partition]?.epoch ?? 0) + 1, next: positions[partition]?.next)
        positions[partition] = position
        return position
    }

    /// `SetPosition` to where it stands: the epoch alone moves.
    mutating func moveEpoch(of partition: Int) {
        positions[partition]?.epoch += 1
    }

    /// The transaction of `BatchApplier`: false when `AdvancePositions` fails it.
    mutating func apply(_ events: [ReadEvent], advancing advances: [Advance], at now: Timestamp) -> Bool {
        for advance in advances {
            let position = positions[advance.partition]
            switch mutation {
            case .positionsUnchecked: break
            case .positionsWithoutOffset: guard position?.epoch == advance.epoch else { return false }
            default:
                guard position?.epoch == advance.epoch, position?.next == advance.expected else { return false }
            }
        }
        for advance in advances { positions[advance.partition]?.next = advance.next }
        bump(events)
        change(events, at: now)
        mark(events, at: now)
        for event in events { witness.applied(event.offset, of: event.partition) }
        return true
    }

    /// `BumpApps`, `BumpKinds`, `InsertSweep`.
    private mutating func bump(_ events: [ReadEvent]) {
        for event in events {
            switch event.event {
            case .reloadKind(let kind, let urgency):
                kinds[kind].generation.bump(urgency: urgency)
                askedOfAll { SimulatedWorld.kind(of: $0) == kind }
            case .reloadApp(let urgency):
                app.bump(urgency: urgency)
                askedOfAll { _ in true }
            case .reloadMatching(let parity, let urgency):
                record(parity, urgency)
                askedOfAll { SimulatedWorld.parity(of: $0) == parity }
            default: break
            }
        }
    }

    private mutating func askedOfAll(_ isMeant: (Int) -> Bool) {
        for timeline in timelines.indices where timelines[timeline] != nil && isMeant(timeline) {
            witness.askedOfAll(timeline)
        }
    }

    /// An equal one that has not started yet takes the request in.
    private mutating func record(_ parity: Int, _ urgency: RequestUrgency) {
        let all = Array(kinds.indices)
        if let index = sweeps.firstIndex(where: { !$0.isStarted && $0.parity == parity && $0.kinds == all }) {
            sweeps[index].events += 1
            sweeps[index].urgency = max(sweeps[index].urgency, urgency)
        } else {
            sweeps.append(Sweep(id: nextSweep(), kinds: all, parity: parity, events: 1, urgency: urgency))
        }
    }

    // MARK: Widgets

    /// `LifecycleFold`, then `PlaceTimelines`, `InsertWidgets`, `UpdateWidgets`, `OrphanTimelines`.
    private mutating func change(_ events: [ReadEvent], at now: Timestamp) {
        var changed: [Int: Widget] = [:]
        for event in events {
            switch event.event {
            case .place(let widget, let timeline, let time):
                let old = changed[widget] ?? widgets[widget]
                guard isNewer(time, than: old) else { continue }
                let isBack = old?.timeline == nil
                changed[widget] = Widget(
                    timeline: timeline, changedAt: time, placedAt: isBack ? now : old?.placedAt ?? now,
                    viewedAt: old?.viewedAt)
            case .remove(let widget, let time):
                guard var old = changed[widget] ?? widgets[widget], isNewer(time, than: old) else { continue }
                old.timeline = nil
                old.changedAt = time
                changed[widget] = old
            default: break
            }
        }
        guard !changed.isEmpty else { return }
        var left: [Int] = []
        for (widget, new) in changed.sorted(by: { $0.key < $1.key }) {
            let old = widgets[widget]?.timeline
            widgets[widget] = new
            if let timeline = new.timeline, timeline != old { place(timeline, at: now) }
            if let old, old != new.timeline { left.append(old) }
        }
        for timeline in left where !isShown(timeline) {
            withTimeline(timeline) { $0.orphan(at: now) }
        }
    }

    private func isNewer(_ time: Int, than widget: Widget?) -> Bool {
        guard let widget, mutation != .lifecycleIgnoresTime else { return true }
        return time >= widget.changedAt
    }

    /// `PlaceTimelines`.
    private mutating func place(_ timeline: Int, at now: Timestamp) {
        let scope = scope(of: SimulatedWorld.kind(of: timeline))
        guard var row = timelines[timeline] else {
            timelines[timeline] = Timeline(
                state: TimelineStateMachine(placedAt: now, lane: .interactive, in: scope), content: nil)
            witness.asked(timeline)
            return
        }
        guard row.state.place(lane: .interactive, in: scope, at: now) != nil else { return }
        timelines[timeline] = row
        witness.asked(timeline)
    }

    // MARK: Marks

    /// `MarkUsers`, `MarkWidgets`, `RecordViews`.
    private mutating func mark(_ events: [ReadEvent], at now: Timestamp) {
        for event in events {
            switch event.event {
            case .reloadUser(let user, let kind, let urgency):
                for timeline in timelines.indices
                where (kind == nil || SimulatedWorld.kind(of: timeline) == kind) && isShown(timeline, to: user) {
                    ask(timeline, urgency, at: now)
                }
            case .reloadWidget(let widget, let urgency):
                if let timeline = widgets[widget]?.timeline { ask(timeline, urgency, at: now) }
            case .view(let widget):
                guard let timeline = widgets[widget]?.timeline else { continue }
                if let last = widgets[widget]?.viewedAt, now - last < ViewStatistics.interval { continue }
                widgets[widget]?.viewedAt = now
                withTimeline(timeline) { _ = $0.view(at: now) }
            default: break
            }
        }
    }

    private func isShown(_ timeline: Int, to user: Int) -> Bool {
        for widget in widgets.indices
        where SimulatedWorld.user(of: widget) == user && widgets[widget]?.timeline == timeline {
            return true
        }
        return false
    }

    private mutating func ask(_ timeline: Int, _ urgency: RequestUrgency, at now: Timestamp) {
        guard timelines[timeline] != nil else { return }
        mark(
            timeline, events: 1, urgency: urgency, lane: urgency == .budgeted ? .push : .interactive, isBulk: false,
            at: now)
        witness.asked(timeline)
    }
}
