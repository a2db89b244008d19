// SPDX-License-Identifier: Apache-2.0

package import WidgetModel
package import WidgetStore

extension OperatorNote {
    package static let test = OperatorNote(by: "tester", reason: "a test")
}

/// Actions of ``OperatorNote/test``.
extension WidgetStore {
    package func pause(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        try await pause(app: app, kind: kind, .test)
    }

    package func resume(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        try await resume(app: app, kind: kind, .test)
    }

    package func cancelWork(app: String, kind: String) async throws -> CancelledWork? {
        try await cancelWork(app: app, kind: kind, .test)
    }
}
