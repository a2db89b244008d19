// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@Suite struct TraceParentTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let span = "00f067aa0ba902b7"

    @Test("A trace context is read and written unchanged")
    func valid() throws {
        let parent = try #require(TraceParent("00-\(Self.trace)-\(Self.span)-01"))
        #expect(parent.traceID == Self.trace)
        #expect(parent.spanID == Self.span)
        #expect(parent.isSampled)
        #expect(parent.description == "00-\(Self.trace)-\(Self.span)-01")
        #expect(TraceParent("00-\(Self.trace)-\(Self.span)-00")?.isSampled == false)
        #expect(TraceParent("00-\(Self.trace)-\(Self.span)-03")?.isSampled == true)
    }

    @Test("The known fields of a later version are read")
    func later() {
        #expect(TraceParent("cc-\(Self.trace)-\(Self.span)-01-more")?.description == "00-\(Self.trace)-\(Self.span)-01")
    }

    @Test(
        "Trace contexts that the recommendation calls invalid are refused",
        arguments: [
            "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-0", "00-\(trace)-\(span)-01-more",
            "ff-\(trace)-\(span)-01", "00-\(trace.uppercased())-\(span)-01", "00-\(trace)-\(span)-0g",
            "00-00000000000000000000000000000000-\(span)-01", "00-\(trace)-0000000000000000-01",
            "00-\(trace)_\(span)-01", "00-\(trace)-\(span)-011", "cc-\(trace)-\(span)-01more",
        ])
    func invalid(_ text: String) {
        #expect(TraceParent(text) == nil)
    }
}
