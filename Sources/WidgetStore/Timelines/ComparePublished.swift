package import PostgresClient
import WidgetModel

/// The message that this process published last for a timeline; 0: none, or a tombstone.
package struct PublishedRevision: Sendable {
    package let row: Int64
    package let revision: Int64

    package init(row: Int64, revision: Int64) {
        self.row = row
        self.revision = revision
    }
}

/// Rows whose stored content is not the one that this process published last, in a snapshot after the acknowledgement; and
/// rows that are gone, or orphaned: content that lands between a tombstone and the deletion must not be the last message.
package struct ComparePublished: PostgresStatement {
    package struct Row: Sendable {
        /// Primary key of the row.
        package let row: Int64
        /// nil: the row is gone, or about to go.
        package let timeline: ClaimedTimeline?
        /// Content to be published, with its revision.
        package let content: [UInt8]?
    }

    private static let input = InputColumns<PublishedRevision>([
        .init("id") { $0.row }, .init("published") { $0.revision },
    ])

    package static let sql = """
        SELECT i.id AS compared, \(ClaimedTimeline.columns()), t.content
        FROM \(input.rows("i"))
        LEFT JOIN timeline t ON t.id = i.id AND NOT t.orphaned LEFT JOIN kind k ON k.id = t.kind_id
        WHERE t.id IS NULL OR t.content_revision <> i.published AND t.content_revision > 0
        """

    package let parameters: PostgresParameters

    package init(_ published: [PublishedRevision]) {
        parameters = Self.input.parameters(published)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let isGone = try row.optional("row", as: Int64.self) == nil
        return Row(
            row: try row.value("compared"), timeline: isGone ? nil : try ClaimedTimeline(row),
            content: try row.optional("content", as: PostgresTextBytes.self)?.bytes)
    }
}
