"""The pool that made-up text is written from: 256 common English words, so that one byte picks one.

Common words are one token each in most vocabularies, in the middle of a text and at its beginning alike. Which of them are
in that of the server under test is found out before load (:mod:`llm_locust.workload.calibration`).
"""

from __future__ import annotations

WORDS = (  # noqa: SIM905 - a list of quoted words is only longer
    "about action after air also animal answer apple ask back balance bear begin below better blue body book "
    "bottom branch build burn call camera cause center check chief child choice church climate coast cold collect "
    "color company compare complete consider cover culture current deal design doctor drive dry earth edge effect "
    "effort either electric else empty engine enter equal exercise eye face fact fair fall far father feed feel "
    "field figure final fine finger finish first fit floor flow follow food foreign fruit future give glass gold "
    "govern great green ground half hand happy high history hold hour hundred idea industry inside interest iron "
    "job jump keep king know land late law lead leave leg letter level library listen little low main measure "
    "meat memory milk minute model moment money motion mouth much must natural near need network news noise nose "
    "note nothing often open orange order outside parent part party past peace people period piece place plain "
    "plan please point position possible power practice prepare price print process public push quick quiet quite "
    "rain range reach read receive red report rich ring river road rock rose round safe salt save sea search "
    "season seat sense sharp show side simple since skill sleep small smooth soft solid some sort space speed "
    "spread spring stage stand stop store storm story strong student sun supply surface sweet system table talk "
    "tall ten thick thing time together tool top total train travel trip trust try unit until use usual view vote "
    "wall warm week weight whole window world worth"
).split()
