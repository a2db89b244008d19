#if DEBUG
import Foundation
#endif

/// What keeps an invariant of the design (section 9) through kills, zombies and rebalances.
///
/// A build for debugging can go without one of them, to show that the chaos suite notices: the environment variable
/// `FRESHET_DISABLE_PROTECTION` has their names, separated by commas. In a release build they cannot be switched off.
package enum Protection: String, CaseIterable, Sendable {
    /// A worker's statements touch only rows whose claim is still its own (invariant 3).
    case fencing
    /// Positions move compare-and-set on the epoch and the expected offset (invariant 2).
    case positions
    /// Content is stored before it is published (invariant 5).
    case saveBeforePublish
    /// A timeline is rendered at the generations that were current before its fetch (invariant 1).
    case generationCapture

    #if DEBUG
    package static let variable = "FRESHET_DISABLE_PROTECTION"

    /// Unknown names switch nothing off: whoever runs mutations checks ``disabled``.
    package static let disabled: Set<Protection> = Set(
        (ProcessInfo.processInfo.environment[variable] ?? "").split(separator: ",").compactMap {
            Protection(rawValue: String($0))
        })

    package var isOn: Bool { !Self.disabled.contains(self) }
    #else
    package static let disabled: Set<Protection> = []

    package var isOn: Bool { true }
    #endif

    /// The SQL of the protection, or what stands in its place without it.
    func sql(_ guarded: String, otherwise unguarded: String = "") -> String {
        isOn ? guarded : unguarded
    }
}
