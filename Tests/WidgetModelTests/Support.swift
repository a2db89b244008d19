// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing

@testable import WidgetModel

extension Tag {
    @Tag static var json: Self
    @Tag static var property: Self
    @Tag static var provider: Self
    @Tag static var rules: Self
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

func time(_ text: String) -> Timestamp {
    Timestamp(rfc3339: text) ?? .distantPast
}

extension ProviderFailure {
    /// An element that breaks the contract.
    static func invalid(_ error: ModelError) -> ProviderFailure { ProviderFailure(.invalid, "\(error)") }
}
