import WidgetModel

extension ReloadLane {
    /// Whether somebody may be waiting for it. The other lanes are patient: what is in them was not asked for just now,
    /// or is a part of something so large that nobody looks at any one timeline of it.
    var isUrgent: Bool { self <= .push }

    /// How many of a number of slots requests of this lane may hold, so that some are free for what better lanes will
    /// want while these are on their way: all but a quarter for patient lanes together, all but half for bulk. One slot
    /// is every lane's. What urgent requests hold does not count, so no flood of them keeps a patient lane out.
    func most(of slots: Int) -> Int {
        switch self {
        case .interactive, .push: slots
        case .scheduled: slots - slots / 4
        case .bulk: slots - slots / 2
        }
    }
}

/// Which lane is served next: the one that has been served least for its weight, the more urgent of equals.
///
/// When all lanes have work they share 8 : 4 : 2 : 1, so each is guaranteed its part and none starves; what a lane does
/// not use goes to the others. A lane that was empty does not save up credit meanwhile.
struct LaneShares: Sendable {
    private static let weights: [ReloadLane: Int] = [.interactive: 8, .push: 4, .scheduled: 2, .bulk: 1]

    /// Work served to each lane, in units that cost a lane the more the less it weighs.
    private var served: [ReloadLane: Int] = [:]
    private var active: Set<ReloadLane> = []

    /// Says which lanes can be served from now on.
    mutating func begin(with lanes: Set<ReloadLane>) {
        let floor = lanes.intersection(active).map { served[$0, default: 0] }.min()
        for lane in lanes.subtracting(active) {
            served[lane] = floor.map { max($0, served[lane, default: 0]) } ?? 0
        }
        active = lanes
        // Only differences count: kept small, they never overflow.
        let least = lanes.map { served[$0, default: 0] }.min() ?? 0
        served = served.filter { lanes.contains($0.key) }.mapValues { $0 - least }
    }

    func next(among lanes: Set<ReloadLane>) -> ReloadLane? {
        lanes.min { left, right in
            (served[left, default: 0], left.rawValue) < (served[right, default: 0], right.rawValue)
        }
    }

    mutating func charge(_ lane: ReloadLane, _ amount: Int) {
        let greatest = Self.weights[.interactive, default: 1]
        served[lane, default: 0] += amount * greatest / Self.weights[lane, default: 1]
    }
}
