// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import WidgetModel

/// Expected state according to the log: each offset of the input topics applied once, in the order of its partition.
/// Implemented independently of the product's folding.
struct ChaosModel: Sendable {
    struct Widget: Sendable {
        var placement: WidgetPlacement
        var changedAt: Timestamp
        var isRemoved = false
    }

    struct Place: Hashable, Comparable, Sendable, CustomStringConvertible {
        let topic: String
        let partition: Int32
        let offset: Int64

        var description: String { "\(topic)/\(partition)@\(offset)" }

        static func < (left: Place, right: Place) -> Bool {
            (left.topic, left.partition, left.offset) < (right.topic, right.partition, right.offset)
        }
    }

    /// Number of events for each stable timeline, by its index.
    private(set) var requested: [Int]
    /// Counted views of each stable timeline of one person, and the time of the last.
    private(set) var views: [Int: (count: Int, last: Timestamp)] = [:]
    private(set) var appGenerations: [String: Int] = [:]
    /// Generations by app and kind.
    private(set) var kindGenerations: [String: Int] = [:]
    /// Widgets by app and ID.
    private(set) var widgets: [String: Widget] = [:]
    /// People by app and user.
    private(set) var people: [String: ChaosPerson] = [:]
    private(set) var refused: Set<Place> = []
    /// Offsets after the last message of each partition.
    private var read: [TopicPartition: Int64] = [:]
    /// Offsets of transactions' markers, which consumers do not see.
    private var markers: [TopicPartition: Set<Int64>] = [:]
    /// Offsets at which no message was read.
    private var gaps: [TopicPartition: Set<Int64>] = [:]
    private(set) var applied = 0
    /// Events that the brokers hold more than once.
    private(set) var repeated = 0
    private var seen: Set<String> = []
    /// Last events for each stable timeline, for explanations.
    private(set) var lastHits: [Int: [Place]] = [:]

    init(timelines: Int) {
        requested = Array(repeating: 0, count: timelines)
    }

    /// Next offsets: those after the last messages and the markers behind them.
    var next: [TopicPartition: Int64] {
        var next = read
        for (partition, offsets) in markers {
            var offset = next[partition] ?? 0
            while offsets.contains(offset) { offset += 1 }
            next[partition] = offset
        }
        return next
    }

    /// Offsets without a message and without a marker.
    var missed: [Place] {
        gaps.flatMap { partition, offsets in
            offsets.subtracting(markers[partition] ?? []).map {
                Place(topic: partition.topic, partition: partition.partition, offset: $0)
            }
        }.sorted()
    }

    /// Number of markers.
    var markerCount: Int { markers.values.reduce(0) { $0 + $1.count } }

    mutating func note(marker place: Place) {
        markers[TopicPartition(topic: place.topic, partition: place.partition), default: []].insert(place.offset)
    }

    /// - Returns: An error in the evidence itself.
    mutating func apply(_ event: ChaosEvent?, id: String, at place: Place) -> String? {
        let partition = TopicPartition(topic: place.topic, partition: place.partition)
        let expected = read[partition] ?? 0
        guard place.offset >= expected else { return "\(place): the checker has read \(expected - 1) before" }
        read[partition] = place.offset + 1
        // The acknowledgement of a marker may come later than the message behind it.
        gaps[partition, default: []].formUnion(expected..<place.offset)
        guard let event else { return "\(place): event \(id) was never published" }
        applied += 1
        if !seen.insert(id).inserted { repeated += 1 }
        if event.isRefused { refused.insert(place) }
        for index in event.marks {
            requested[index] += 1
            lastHits[index, default: []].append(place)
            if lastHits[index, default: []].count > 4 { lastHits[index, default: []].removeFirst() }
        }
        if let app = event.appBump { appGenerations[app, default: 0] += 1 }
        for bump in event.kindBumps { kindGenerations[ChaosWorld.key(bump.app, bump.kind), default: 0] += 1 }
        if let lifecycle = event.lifecycle, let time = event.lifecycleTime { apply(lifecycle, at: time) }
        if let person = event.person {
            people[ChaosWorld.key(person.app, person.user), default: ChaosPerson()].apply(person)
        }
        if let view = event.view { count(view.at, of: view.timeline) }
        return nil
    }

    /// Changes of a widget that was never placed are ignored.
    private mutating func apply(_ lifecycle: ChaosEvent.Lifecycle, at time: Timestamp) {
        switch lifecycle {
        case .placed(let placement):
            let key = ChaosWorld.key(placement.app, placement.widget)
            if let old = widgets[key] {
                guard time >= old.changedAt else { return }
                widgets[key]?.placement = placement
                widgets[key]?.changedAt = time
                widgets[key]?.isRemoved = false
            } else {
                widgets[key] = Widget(placement: placement, changedAt: time)
            }
        case .configured(let app, let widget, let configuration):
            let key = ChaosWorld.key(app, widget)
            guard let old = widgets[key] else { return }
            guard time >= old.changedAt, !old.isRemoved else { return }
            widgets[key]?.placement.configuration = configuration
            widgets[key]?.changedAt = time
        case .removed(let app, let widget):
            let key = ChaosWorld.key(app, widget)
            guard let old = widgets[key] else { return }
            guard time >= old.changedAt else { return }
            widgets[key]?.isRemoved = true
            widgets[key]?.changedAt = time
        case .environment(let app, let device, let environment):
            for (key, old) in widgets
            where !old.isRemoved && old.placement.app == app && old.placement.device == device && time >= old.changedAt
            {
                widgets[key]?.placement.environment = environment
                widgets[key]?.changedAt = time
            }
        }
    }

    private mutating func count(_ time: Timestamp, of timeline: Int) {
        if let known = views[timeline], time < known.last + .seconds(3_600) { return }
        views[timeline] = ((views[timeline]?.count ?? 0) + 1, time)
    }
}
