// SPDX-License-Identifier: Apache-2.0

extension XcodeFixture {
    static let german = #"""
        /* Title */
        "tItl01" = "Letzte Einkäufe";

        "cArd01" = "Karte";
        "aLL001" = "Alle";
        "uNkn01" = "unbekannt";
        """#
}
