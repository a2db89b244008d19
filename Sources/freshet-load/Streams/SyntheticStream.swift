import FreshetService
import SampleProvider
import WidgetEvents
import WidgetModel

/// One event of a synthetic stream.
struct StreamEvent: Sendable, Equatable {
    /// Its place in the stream, from 0.
    var index: Int
    /// From the start of the stream.
    var arrival: Duration
    var sort: StreamEventSort
    var audience: StreamAudience
    /// The widget that it is about: it names the kind and, but for everyone, the person.
    var widget: Int
}

/// Parameters of a stream.
struct StreamPlan: Sendable, Equatable {
    var world: LoadWorld
    var distribution = StreamDistribution.uniform
    var audiences = WeightedChoice(StreamAudience.user)
    var sorts = WeightedChoice(StreamEventSort.push)
    /// Mean, events a second.
    var rate = 1_000.0
    var seed: UInt64 = 1
}

/// An endless stream of reload requests. The plan, with its seed, determines every event and its time.
///
/// Under Zipf's law the people's popularity falls with their index, and so does that of a person's widgets.
struct SyntheticStream: Sendable, Sequence, IteratorProtocol {
    let plan: StreamPlan

    private var random: SampleRandom
    private var arrivals: ArrivalTimes
    private let widgets: PopularWidgets
    private var index = 0
    private var peeked: StreamEvent?

    init(_ plan: StreamPlan) {
        self.plan = plan
        random = SampleRandom(seed: plan.seed)
        arrivals = ArrivalTimes(profile: plan.distribution.profile, rate: plan.rate, seed: plan.seed)
        widgets = PopularWidgets(of: plan.world, exponent: plan.distribution.exponent)
    }

    /// The event that comes next.
    mutating func peek() -> StreamEvent? {
        if peeked == nil { peeked = next() }
        return peeked
    }

    mutating func next() -> StreamEvent? {
        if let event = peeked {
            peeked = nil
            return event
        }
        let widget = widgets.next(using: &random)
        let audience = plan.audiences.value(at: random.unit())
        let sort = plan.sorts.value(at: random.unit())
        defer { index += 1 }
        return StreamEvent(
            index: index, arrival: .nanoseconds(Int64((arrivals.next() * 1e9).rounded())), sort: sort,
            audience: audience, widget: widget)
    }
}

extension StreamEvent {
    /// The event as a service of the app publishes it.
    func event(in world: LoadWorld) -> FreshetEvent {
        let person = world.person(of: widget)
        let target: Audience =
            switch audience {
            case .user: .user("u\(person)")
            case .device: .device("d\(person)")
            case .widget: .widget("w\(widget)")
            case .everyone: .everyone
            }
        let reason: ReloadReason =
            switch sort {
            case .push: .push
            case .foreground: .foreground
            case .background: .background
            }
        return FreshetEvent(
            ReloadRequest(
                app: world.app, audience: target, kinds: .kinds([world.kind(of: widget)]), reason: reason))
    }

    /// The partition key: the person, so that all of a person's events keep their order; the app for everyone.
    func key(in world: LoadWorld) -> String {
        audience == .everyone ? world.app : "u\(world.person(of: widget))"
    }
}

extension StreamPlan {
    /// Members of a report that describe the stream.
    var members: [(key: String, value: JSONValue)] {
        [
            ("ratePerSecond", .rounded(rate)), ("distribution", .string(distribution.description)),
            ("seed", .number(JSONNumber("\(seed)") ?? JSONNumber(0))),
        ]
    }
}
