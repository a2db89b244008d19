import WidgetModel

/// The people whom a synthetic stream is about, and their widgets: all of it follows from an index.
///
/// Person `i` is user `u<i>` with device `d<i>`; the widgets `w<n>` are numbered through, and of the kinds in turn.
struct StreamPopulation: Sendable, Equatable {
    var app: String
    var users: Int
    var widgetsPerUser = 1
    var kinds: [String]

    var widgets: Int { users * widgetsPerUser }

    func kind(ofWidget widget: Int) -> String { kinds[widget % kinds.count] }

    /// Whose widget it is.
    func person(ofWidget widget: Int) -> Int { widget / widgetsPerUser }

    /// Names for as many kinds as are wanted: `Load0`, `Load1`, …
    static func kindNames(_ count: Int) -> [String] {
        (0..<count).map { "Load\($0)" }
    }
}
