import PostgresClient
import WidgetModel
import WidgetStore

/// People of an app with one widget and one timeline each, as rows: rendered, quiet, and wanted again by their policy within
/// a day. Everything follows from an index.
struct LoadPopulation: Sendable {
    let world: LoadWorld
    /// The registered kinds, in the order of the world's.
    let kinds: [RegisteredKind]
    /// Bytes of a stored timeline, about; 0: none is stored.
    let contentBytes: Int

    /// - Throws: ``CommandFailure`` when the app is not registered.
    init(world: LoadWorld, contentBytes: Int, directory: KindDirectory) throws {
        guard let registered = directory.apps[world.app] else {
            throw CommandFailure(.failure, "the app \(world.app) could not be registered")
        }
        self.world = world
        self.contentBytes = contentBytes
        kinds = (0..<world.kinds).compactMap { directory.kind(world.kind($0), of: registered) }
        guard kinds.count == world.kinds else {
            throw CommandFailure(.failure, "the kinds of \(world.app) could not be registered")
        }
    }

    var appID: Int32 { kinds[0].appID }

    func kind(_ index: Int) -> RegisteredKind { kinds[index % kinds.count] }

    func identity(_ index: Int) -> TimelineIdentity {
        let placement = world.placement(index)
        let definition = kind(index).definition
        return TimelineIdentity(
            app: world.app, kind: placement.kind, sharing: definition.sharing, variesBy: definition.variesBy,
            family: placement.family, configuration: placement.configuration, environment: placement.environment,
            user: placement.user)
    }

    func rows(_ indices: Range<Int>) -> FillPopulation {
        FillPopulation(
            timelines: indices,
            timeline: { [self] index in
                let content = contentBytes > 0 ? Self.content(index, version: 0, bytes: contentBytes) : nil
                return FilledTimeline(
                    identity: identity(index), kind: kind(index), content: content,
                    hash: Self.hash(index, version: 0), nextReload: .seconds(3_600 + index &* 7_919 % 86_400))
            },
            widgets: indices,
            widget: { [self] index in
                FilledWidget(
                    placement: world.placement(index), kind: kind(index), timeline: index)
            })
    }

    /// A hash that differs by index and version, as that of different content would.
    static func hash(_ index: Int, version: Int) -> ContentHash {
        ContentHash(high: UInt64(index) &* 0x9E37_79B9_7F4A_7C15, low: UInt64(version) &+ 1)
    }

    /// Canonical JSON of one entry of about so many bytes.
    static func content(_ index: Int, version: Int, bytes: Int) -> String {
        let head = #"{"entries":[{"content":{"amount":"\#(index % 10_000).\#(version % 100)","note":""#
        let tail = #"","title":"Purchase \#(index)"},"date":"2026-01-01T00:00:00Z"}],"policy":"never"}"#
        // Text that compresses as words do, not as one letter does; phrase by phrase, since millions are made.
        var text = head
        text.reserveCapacity(bytes + 64)
        let end = bytes - tail.utf8.count
        var state = UInt64(index &+ 1) &* 0x9E37_79B9_7F4A_7C15 ^ UInt64(version)
        while text.utf8.count < end {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let phrase = phrases[Int(state >> 56)]
            text += text.utf8.count + phrase.utf8.count < end + 16 ? phrase : words[Int(state >> 60)]
        }
        return text + tail
    }

    /// 256 of five words each.
    private static let phrases: [String] = (0..<256).map { phrase in
        (0..<5).map { words[(phrase * 7 + phrase / 16 * 5 + $0 * ($0 + phrase)) % words.count] }.joined()
    }

    private static let words = [
        "coffee ", "train ", "book ", "rent ", "lunch ", "ticket ", "shoes ", "repair ", "flight ", "hotel ", "garden ",
        "music ", "market ", "pharmacy ", "cinema ", "fuel ",
    ]
}
