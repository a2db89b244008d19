// SPDX-License-Identifier: Apache-2.0

import Testing

extension Tag {
    @Tag static var json: Self
    @Tag static var property: Self
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
